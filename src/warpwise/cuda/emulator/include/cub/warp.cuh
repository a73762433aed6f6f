// CUB's operations of a warp for the emulator: WarpReduce and WarpScan, of logical warps of 1 to 32 lanes. Lanes
// exchange their values as by shuffles; the results are combined in lane order.
#pragma once
#include <warpwise_device.h>

#include "../ww/cub_pairs.h"

// An inlined member function; see WW_INLINE.
#define WW_INLINE_MEMBER inline __attribute__((always_inline))

namespace cub {
struct NullType {};
// The line of a call. An int would be ambiguous with the aggregate of a scan of integers.
struct Line {
  int number;
};
#define WW_CUB_LINE cub::Line line = {WW_CALLER}

#define WW_CUB_OPERATOR(NAME, EXPRESSION)                  \
  struct NAME {                                            \
    template <class A, class B>                            \
    constexpr A operator()(const A& a, const B& b) const { \
      return EXPRESSION;                                   \
    }                                                      \
  };
WW_CUB_OPERATOR(Sum, a + b)
WW_CUB_OPERATOR(Min, b < a ? static_cast<A>(b) : a)
WW_CUB_OPERATOR(Max, a < b ? static_cast<A>(b) : a)
#undef WW_CUB_OPERATOR
enum CacheLoadModifier { LOAD_DEFAULT, LOAD_CA, LOAD_CG, LOAD_CS, LOAD_CV, LOAD_LDG, LOAD_VOLATILE };
template <CacheLoadModifier, class I>
WW_INLINE auto ThreadLoad(I from) {
  return *from;
}

namespace ww_detail {
// The mask of the running thread's logical warp of `width` lanes, and its lane there.
WW_INLINE unsigned first_lane(int width) { return ww_lane() / width * width; }
WW_INLINE unsigned mask_of(int width) { return (width >= 32 ? ~0u : (1u << width) - 1) << first_lane(width); }

// Combines the values of the lanes [0, count) of the logical warp in their order.
template <class T, class F>
WW_UNINSTRUMENTED T combined(int width, int count, T own, F f, int line) {
  const ww_exchange table = ww_warp_exchange(mask_of(width), &own, sizeof(T), "a warp operation of CUB", line);
  T result = own;
  for (int lane = 0; lane < count; lane++) {
    const T value = ww::lane_value<T>(table, first_lane(width) + lane, own, "a warp operation of CUB", line);
    result = lane ? f(result, value) : value;
  }
  return result;
}
}  // namespace ww_detail

template <class T, int WIDTH = 32>
class WarpReduce {
 public:
  struct TempStorage {
    char unused;
  };
  WW_INLINE_MEMBER explicit WarpReduce(TempStorage&) {}
  template <class F>
  WW_INLINE_MEMBER T Reduce(T input, F f, int valid = WIDTH, WW_LINE) {
    return ww_detail::combined(WIDTH, valid < WIDTH ? valid : WIDTH, input, f, line);
  }
  WW_INLINE_MEMBER T Sum(T input, int valid = WIDTH, WW_LINE) { return Reduce(input, cub::Sum(), valid, line); }
};

template <class T, int WIDTH = 32>
class WarpScan {
 public:
  struct TempStorage {
    char unused;
  };
  WW_INLINE_MEMBER explicit WarpScan(TempStorage&) {}
  template <class F>
  WW_INLINE_MEMBER void InclusiveScan(T input, T& output, F f, WW_CUB_LINE) {
    output = ww_detail::combined(WIDTH, lane() + 1, input, f, line.number);
  }
  template <class F>
  WW_INLINE_MEMBER void InclusiveScan(T input, T& output, F f, T& aggregate, WW_CUB_LINE) {
    aggregate = ww_detail::combined(WIDTH, WIDTH, input, f, line.number);
    output = ww_detail::combined(WIDTH, lane() + 1, input, f, line.number);
  }
  template <class F>
  WW_INLINE_MEMBER void ExclusiveScan(T input, T& output, T initial, F f, WW_CUB_LINE) {
    const T before = ww_detail::combined(WIDTH, lane(), input, f, line.number);
    output = lane() ? f(initial, before) : initial;
  }
  template <class F>
  WW_INLINE_MEMBER void ExclusiveScan(T input, T& output, T initial, F f, T& aggregate, WW_CUB_LINE) {
    aggregate = ww_detail::combined(WIDTH, WIDTH, input, f, line.number);
    ExclusiveScan(input, output, initial, f, line);
  }
  template <class F>
  WW_INLINE_MEMBER void ExclusiveScan(T input, T& output, F f, WW_CUB_LINE) {
    output = ww_detail::combined(WIDTH, lane(), input, f, line.number);  // of lane 0: undefined
  }
  WW_INLINE_MEMBER void InclusiveSum(T input, T& output, WW_CUB_LINE) {
    InclusiveScan(input, output, cub::Sum(), line);
  }
  WW_INLINE_MEMBER void InclusiveSum(T input, T& output, T& aggregate, WW_CUB_LINE) {
    InclusiveScan(input, output, cub::Sum(), aggregate, line);
  }
  WW_INLINE_MEMBER void ExclusiveSum(T input, T& output, WW_CUB_LINE) {
    ExclusiveScan(input, output, T(), cub::Sum(), line);
  }
  WW_INLINE_MEMBER void ExclusiveSum(T input, T& output, T& aggregate, WW_CUB_LINE) {
    ExclusiveScan(input, output, T(), cub::Sum(), aggregate, line);
  }
  WW_INLINE_MEMBER T Broadcast(T input, unsigned source, WW_CUB_LINE) {
    return ww::shuffle<T>(ww_detail::mask_of(WIDTH), input, int(source), WIDTH, "WarpScan::Broadcast", line.number);
  }

 private:
  static int lane() { return int(ww_lane() - ww_detail::first_lane(WIDTH)); }
};
}  // namespace cub
