// mma.h for the emulator: nvcuda::wmma, matrix fragments distributed over the lanes of a warp.
//
// CUDA does not specify which lane holds which element of a fragment. Here, x[i] of lane L is element 32 i + L of the
// row-major tile. A 16x16 accumulator instead has the layout of sm_80 and later (two m16n8 tiles of mma.sync), because
// some kernels rely on it.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "ww/wmma_types.h"

namespace nvcuda {
namespace wmma {
namespace detail {
template <class T>
struct stored {
  typedef T type;
};
template <>
struct stored<precision::tf32> {
  typedef float type;
};
template <class T, int M, int N, int K>
constexpr bool shape_exists() {
  constexpr bool wide =
      (M == 16 && N == 16 && K == 16) || (M == 32 && N == 8 && K == 16) || (M == 8 && N == 32 && K == 16);
  if (std::is_same_v<T, precision::tf32>) return M == 16 && N == 16 && K == 8;
  if (std::is_same_v<T, double>) return M == 8 && N == 8 && K == 4;
  return wide;
}
}  // namespace detail

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment {
  static constexpr bool is_accumulator = std::is_same_v<Use, accumulator>;
  static constexpr int rows = std::is_same_v<Use, matrix_b> ? K : M, columns = std::is_same_v<Use, matrix_a> ? K : N;
  static constexpr int num_elements = rows * columns / 32, num_storage_elements = num_elements;
  typedef typename detail::stored<T>::type element_type;
  typedef element_type storage_element_type;
  static_assert(
      is_accumulator || detail::shape_exists<T, M, N, K>(),
      "wmma shapes: m16n16k16, m32n8k16, m8n32k16 (16-bit floats, 8-bit integers), m16n16k8 (tf32), m8n8k4 (double)");
  element_type x[num_elements];

  static constexpr bool tiled = is_accumulator && M == 16 && N == 16;
  static inline __attribute__((always_inline)) int row(unsigned lane, int index) {
    return tiled ? int(lane / 4) + 8 * (index >> 1 & 1) : (index * 32 + int(lane)) / columns;
  }
  static inline __attribute__((always_inline)) int column(unsigned lane, int index) {
    return tiled ? 2 * int(lane % 4) + (index & 1) + 8 * (index >> 2) : (index * 32 + int(lane)) % columns;
  }
};

template <class Use, int M, int N, int K, class T, class Layout>
WW_INLINE void fill_fragment(fragment<Use, M, N, K, T, Layout>& f,
                             const ww::same_t<typename fragment<Use, M, N, K, T, Layout>::element_type>& value) {
  for (int i = 0; i < f.num_elements; ++i) f.x[i] = value;
}

// Rounds a float to the 19 bits of tf32; tensor cores ignore the others.
WW_INLINE float __float_to_tf32(float x) {
  const unsigned u = ww::bits<unsigned>(x);
  return (u & 0x7fffffffu) > 0x7f800000u ? x : ww::bits<float>((u + 0x1000u) & 0xffffe000u);
}

namespace detail {
WW_INLINE void check_and_sync(const char* what, const void* address, unsigned stride_bytes, int line) {
  if (reinterpret_cast<size_t>(address) % 16 || stride_bytes % 16)
    ww_fail(WW_UNDEFINED,
            "a wmma load or store requires an address and a leading dimension that are multiples of 16 bytes", line);
  ww_warp_exchange(0xffffffffu, nullptr, 0, what, line);
}
template <class F, class P>
WW_INLINE void load(F& f, const P* from, unsigned stride, bool by_columns, int line) {
  check_and_sync("wmma::load_matrix_sync", from, stride * sizeof(P), line);
  const unsigned lane = ww_lane();
  for (int i = 0; i < F::num_elements; ++i) {
    const unsigned r = F::row(lane, i), c = F::column(lane, i);
    f.x[i] = from[by_columns ? c * stride + r : r * stride + c];
  }
}
}  // namespace detail

template <class Use, int M, int N, int K, class T, class Layout, class P>
WW_INLINE void load_matrix_sync(fragment<Use, M, N, K, T, Layout>& f, const P* from, unsigned stride, WW_LINE) {
  static_assert(!std::is_same_v<Use, accumulator>,
                "loading an accumulator requires a layout argument: mem_row_major or mem_col_major");
  detail::load(f, from, stride, std::is_same_v<Layout, col_major>, line);
}
template <int M, int N, int K, class T, class P>
WW_INLINE void load_matrix_sync(fragment<accumulator, M, N, K, T>& f, const P* from, unsigned stride, layout_t layout,
                                WW_LINE) {
  detail::load(f, from, stride, layout == mem_col_major, line);
}
template <int M, int N, int K, class T, class P>
WW_INLINE void store_matrix_sync(P* to, const fragment<accumulator, M, N, K, T>& f, unsigned stride, layout_t layout,
                                 WW_LINE) {
  typedef fragment<accumulator, M, N, K, T> F;
  detail::check_and_sync("wmma::store_matrix_sync", to, stride * sizeof(P), line);
  const unsigned lane = ww_lane();
  for (int i = 0; i < F::num_elements; ++i) {
    const unsigned r = F::row(lane, i), c = F::column(lane, i);
    to[layout == mem_col_major ? c * stride + r : r * stride + c] = f.x[i];
  }
}

// d = a b + c. The lanes exchange their elements of a and b; then each lane computes its own elements of d.
template <int M, int N, int K, class T, class U, class LA, class LB, class TD, class TC>
WW_UNINSTRUMENTED void mma_sync(fragment<accumulator, M, N, K, TD>& d, const fragment<matrix_a, M, N, K, T, LA>& a,
                                const fragment<matrix_b, M, N, K, U, LB>& b,
                                const fragment<accumulator, M, N, K, TC>& c, bool saturate, int line) {
  typedef fragment<matrix_a, M, N, K, T, LA> A;
  typedef fragment<matrix_b, M, N, K, U, LB> B;
  typedef fragment<accumulator, M, N, K, TC> C;
  typedef typename A::element_type element;
  typedef std::conditional_t<std::is_same_v<TC, int>, long long,
                             std::conditional_t<std::is_same_v<TC, double>, double, float>>
      sum_type;
  element own[A::num_elements + B::num_elements];
  __builtin_memcpy(static_cast<void*>(own), a.x, sizeof a.x);
  __builtin_memcpy(static_cast<void*>(own + A::num_elements), b.x, sizeof b.x);
  const ww_exchange table = ww_warp_exchange(0xffffffffu, own, sizeof own, "wmma::mma_sync", line);
  const auto value = [&](int e, int first) __attribute__((no_sanitize("thread"))) -> sum_type {
    element x;
    __builtin_memcpy(static_cast<void*>(&x), table.data + (e % 32) * table.stride + (first + e / 32) * sizeof(element),
                     sizeof x);
    if constexpr (std::is_same_v<T, precision::tf32>)
      return ww::bits<float>(ww::bits<unsigned>(x) & 0xffffe000u);
    else
      return static_cast<sum_type>(x);
  };
  const unsigned lane = ww_lane();
  TD result[C::num_elements];
  for (int i = 0; i < C::num_elements; ++i) {
    const int row = C::row(lane, i), column = C::column(lane, i);
    sum_type sum = static_cast<sum_type>(c.x[i]);
    for (int k = 0; k < K; ++k) sum += value(row * K + k, 0) * value(k * N + column, A::num_elements);
    if constexpr (std::is_same_v<TC, int>)
      result[i] = saturate ? static_cast<int>(sum < INT_MIN   ? INT_MIN
                                              : sum > INT_MAX ? INT_MAX
                                                              : sum)
                           : static_cast<int>(static_cast<unsigned>(sum));
    else
      result[i] = static_cast<TD>(sum);
  }
  for (int i = 0; i < C::num_elements; ++i) d.x[i] = result[i];
}
template <int M, int N, int K, class T, class U, class LA, class LB, class TD, class TC>
WW_INLINE void mma_sync(fragment<accumulator, M, N, K, TD>& d, const fragment<matrix_a, M, N, K, T, LA>& a,
                        const fragment<matrix_b, M, N, K, U, LB>& b, const fragment<accumulator, M, N, K, TC>& c,
                        WW_LINE) {
  mma_sync(d, a, b, c, false, line);
}
}  // namespace wmma
}  // namespace nvcuda

#include "ww/wmma_subbyte.h"
