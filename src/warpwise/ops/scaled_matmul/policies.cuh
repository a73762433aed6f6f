// L2 cache policies of TMA loads, and prefetches to L2.
#pragma once

#include <warpwise/sm90/tma.cuh>

namespace sm90 = warpwise::sm90;

// L2 eviction priority of a load: 0 evict_normal, 1 evict_first, 2 evict_last. A launch's hints are B's policy + 4 *
// A's.
__device__ inline sm90::CachePolicy policy_for(int priority) {
  sm90::CachePolicy evict_normal, evict_last;
  asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(evict_normal));
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(evict_last));
  return priority == 1 ? sm90::createpolicy_evict_first() : priority == 2 ? evict_last : evict_normal;
}

__device__ inline void prefetch_l2(const float* address) { asm volatile("prefetch.global.L2 [%0];" ::"l"(address)); }

// Prefetches the scales of `rows` x `columns` of C to L2, by the first threads of a group whose index is `thread`.
__device__ inline void prefetch_scales(const float* scale_a, const float* scale_b, bool rowwise, int row, int column,
                                       int rows, int columns, int m, int n, int thread) {
  const int from = thread * 32;  // floats per 128-byte line
  if (rowwise ? from < rows && row + from < m : thread == 0) prefetch_l2(scale_a + (rowwise ? row + from : 0));
  if (rowwise ? from < columns && column + from < n : thread == 0) prefetch_l2(scale_b + (rowwise ? column + from : 0));
}
