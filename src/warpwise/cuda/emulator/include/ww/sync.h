// Barriers, fences and warp operations of CUDA C++ (__syncthreads, __threadfence, __shfl_sync, ...), as calls into the
// runtime, which switches fibers until all participating threads have arrived.
#pragma once

// ---- Barriers of a block
WW_INLINE void __syncthreads(WW_LINE) { ww_syncthreads(0, 0, line); }
WW_INLINE int __syncthreads_count(int predicate, WW_LINE) { return ww_syncthreads(1, predicate, line); }
WW_INLINE int __syncthreads_and(int predicate, WW_LINE) { return ww_syncthreads(2, predicate, line); }
WW_INLINE int __syncthreads_or(int predicate, WW_LINE) { return ww_syncthreads(3, predicate, line); }
WW_INLINE void __barrier_sync(unsigned id, WW_LINE) { ww_named_barrier(id, 0, 0, line); }
WW_INLINE void __barrier_sync_count(unsigned id, unsigned threads, WW_LINE) { ww_named_barrier(id, threads, 0, line); }

// ---- Fences
WW_INLINE void __threadfence_block() { ww_fence(0); }
WW_INLINE void __threadfence() { ww_fence(1); }
WW_INLINE void __threadfence_system() { ww_fence(2); }
WW_INLINE void __nanosleep(unsigned, WW_LINE) { ww_yield(line); }

// ---- Programmatic dependent launch: on the emulator the previous launch has completed
WW_INLINE void cudaGridDependencySynchronize() {}
WW_INLINE void cudaTriggerProgrammaticLaunchCompletion() {}

// ---- Clusters
namespace ww {
// __cluster_dims__ of a kernel; rewrite.py inserts the call at the beginning of the kernel.
WW_INLINE void cluster_dims(unsigned x, unsigned y = 1, unsigned z = 1, WW_LINE) { ww_cluster_dims(x, y, z, line); }
}  // namespace ww

// ---- Warp operations
WW_INLINE void __syncwarp(unsigned mask = 0xffffffffu, WW_LINE) { ww_syncwarp(mask, line); }
WW_INLINE unsigned __activemask(WW_LINE) { return ww_converged_lanes(line); }

namespace ww {
constexpr unsigned kFullMask = 0xffffffffu;

// The value of lane `source`. If the lane has exited or is not in the mask, the result is undefined in CUDA.
template <class T>
WW_UNINSTRUMENTED T lane_value(ww_exchange table, unsigned source, T own, const char* what, int line) {
  if (!(table.present >> source & 1)) {
    char message[128];
    snprintf(message, sizeof message,
             "%s reads the value of lane %u, which does not participate: the result is undefined", what, source);
    ww_warn(WW_WARP, message, line);
    return own;
  }
  T value;
  __builtin_memcpy(static_cast<void*>(&value), table.data + source * table.stride, sizeof(T));
  return value;
}

// Reduces the values of all participating lanes in lane order, so that every lane gets the same result.
template <class T, class F>
WW_UNINSTRUMENTED auto fold(unsigned mask, T own, const char* what, int line, F f) {
  const ww_exchange table = ww_warp_exchange(mask, &own, sizeof(T), what, line);
  T result = own;
  bool first = true;
  for (unsigned lane = 0; lane < 32; lane++) {
    if (!(table.present >> lane & 1)) continue;
    T value;
    __builtin_memcpy(static_cast<void*>(&value), table.data + lane * table.stride, sizeof(T));
    result = first ? value : f(result, value);
    first = false;
  }
  return result;
}

// The mask of the lanes whose value has the same bytes as this lane's.
template <class T>
WW_UNINSTRUMENTED unsigned matching(unsigned mask, T own, const char* what, int line) {
  const ww_exchange table = ww_warp_exchange(mask, &own, sizeof(T), what, line);
  unsigned same = 0;
  for (unsigned lane = 0; lane < 32; lane++)
    if ((table.present >> lane & 1) && !__builtin_memcmp(&own, table.data + lane * table.stride, sizeof(T)))
      same |= 1u << lane;
  return same;
}

// True if the values of all participating lanes have the same bytes.
template <class T>
WW_UNINSTRUMENTED auto all_match(unsigned mask, T own, const char* what, int line) {
  const ww_exchange table = ww_warp_exchange(mask, &own, sizeof(T), what, line);
  for (unsigned lane = 0; lane < 32; lane++)
    if ((table.present >> lane & 1) && __builtin_memcmp(&own, table.data + lane * table.stride, sizeof(T)))
      return false;
  return true;
}

WW_UNINSTRUMENTED unsigned ballot(unsigned mask, int predicate, const char* what, int line) {
  const ww_exchange table = ww_warp_exchange(mask, &predicate, sizeof predicate, what, line);
  unsigned votes = 0;
  for (unsigned lane = 0; lane < 32; lane++) {
    int vote = 0;
    if (table.present >> lane & 1) __builtin_memcpy(&vote, table.data + lane * table.stride, sizeof vote);
    votes |= static_cast<unsigned>(vote != 0) << lane;
  }
  return votes;
}

WW_UNINSTRUMENTED bool all_vote(unsigned mask, int predicate, const char* what, int line) {
  return ballot(mask, !predicate, what, line) == 0;
}

inline void check_width(int width, const char* what, int line) {
  if (width < 1 || width > 32 || (width & (width - 1))) {
    char message[128];
    snprintf(message, sizeof message, "%s: width is %d, but must be a power of two from 1 to 32", what, width);
    ww_fail(WW_UNDEFINED, message, line);
  }
}

template <class T>
WW_INLINE T shuffle(unsigned mask, T value, int source, int width, const char* what, int line) {
  check_width(width, what, line);
  const unsigned lane = ww_lane();
  const ww_exchange table = ww_warp_exchange(mask, &value, sizeof(T), what, line);
  return lane_value<T>(table, (lane & ~(width - 1u)) | (source & (width - 1u)), value, what, line);
}

template <class T>
WW_INLINE T shuffle_xor(unsigned mask, T value, int lanes, int width, const char* what, int line) {
  check_width(width, what, line);
  const unsigned lane = ww_lane(), source = lane ^ static_cast<unsigned>(lanes);
  const ww_exchange table = ww_warp_exchange(mask, &value, sizeof(T), what, line);
  return source > (lane | (width - 1u)) ? value : lane_value<T>(table, source, value, what, line);
}

template <class T>
WW_INLINE T shuffle_down(unsigned mask, T value, unsigned delta, int width, const char* what, int line) {
  check_width(width, what, line);
  const unsigned lane = ww_lane();
  const ww_exchange table = ww_warp_exchange(mask, &value, sizeof(T), what, line);
  return (lane & (width - 1u)) + delta >= static_cast<unsigned>(width)
             ? value
             : lane_value<T>(table, lane + delta, value, what, line);
}

template <class T>
WW_INLINE T shuffle_up(unsigned mask, T value, unsigned delta, int width, const char* what, int line) {
  check_width(width, what, line);
  const unsigned lane = ww_lane();
  const ww_exchange table = ww_warp_exchange(mask, &value, sizeof(T), what, line);
  return (lane & (width - 1u)) < delta ? value : lane_value<T>(table, lane - delta, value, what, line);
}
}  // namespace ww

template <class T>
WW_INLINE T __shfl_sync(unsigned mask, T value, int source, int width = 32, WW_LINE) {
  return ww::shuffle<T>(mask, value, source, width, "__shfl_sync", line);
}
template <class T>
WW_INLINE T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, WW_LINE) {
  return ww::shuffle_xor<T>(mask, value, lanes, width, "__shfl_xor_sync", line);
}
template <class T>
WW_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, WW_LINE) {
  return ww::shuffle_down<T>(mask, value, delta, width, "__shfl_down_sync", line);
}
template <class T>
WW_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, WW_LINE) {
  return ww::shuffle_up<T>(mask, value, delta, width, "__shfl_up_sync", line);
}

WW_INLINE unsigned __ballot_sync(unsigned mask, int predicate, WW_LINE) {
  return ww::ballot(mask, predicate, "__ballot_sync", line);
}
WW_INLINE int __any_sync(unsigned mask, int predicate, WW_LINE) {
  return ww::ballot(mask, predicate, "__any_sync", line) != 0;
}
WW_INLINE int __all_sync(unsigned mask, int predicate, WW_LINE) {
  return ww::all_vote(mask, predicate, "__all_sync", line);
}
WW_INLINE int __uni_sync(unsigned mask, int predicate, WW_LINE) {
  return ww::all_match(mask, predicate != 0, "__uni_sync", line);
}

template <class T>
WW_INLINE unsigned __match_any_sync(unsigned mask, T value, WW_LINE) {
  return ww::matching(mask, value, "__match_any_sync", line);
}
template <class T>
WW_INLINE unsigned __match_all_sync(unsigned mask, T value, int* all_equal, WW_LINE) {
  *all_equal = ww::all_match(mask, value, "__match_all_sync", line);
  return *all_equal ? mask : 0;
}

#define WW_REDUCE(NAME, T, EXPRESSION)                                                                  \
  WW_INLINE T __reduce_##NAME##_sync(unsigned mask, T value, WW_LINE) {                                 \
    return ww::fold(mask, value, "__reduce_" #NAME "_sync", line, [](T a, T b) { return EXPRESSION; }); \
  }
WW_REDUCE(add, unsigned, a + b)
WW_REDUCE(add, int, static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b)))
WW_REDUCE(min, unsigned, a < b ? a : b)
WW_REDUCE(min, int, a < b ? a : b)
WW_REDUCE(max, unsigned, a > b ? a : b)
WW_REDUCE(max, int, a > b ? a : b)
WW_REDUCE(and, unsigned, a& b)
WW_REDUCE(or, unsigned, a | b)
WW_REDUCE(xor, unsigned, a ^ b)
#undef WW_REDUCE
