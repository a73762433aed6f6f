// L2 cache policies of TMA loads, and prefetches to L2.
#pragma once

#include <warpwise/sm90/tma.cuh>

namespace sm90 = warpwise::sm90;

// The L2 eviction priority of loads.
__device__ inline sm90::CachePolicy l2_policy(bool evict_first) {
  sm90::CachePolicy evict_normal;
  asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(evict_normal));
  return evict_first ? sm90::createpolicy_evict_first() : evict_normal;
}

__device__ inline void prefetch_l2(const float* address) { asm volatile("prefetch.global.L2 [%0];" ::"l"(address)); }

// Prefetches the scales of `rows` x `columns` of C to L2, by the first threads of a group whose index is `thread`.
__device__ inline void prefetch_scales(const float* scale_a, const float* scale_b, bool rowwise, int row, int column,
                                       int rows, int columns, int m, int n, int thread) {
  const int from = thread * 32;  // floats per 128-byte line
  if (rowwise ? from < rows && row + from < m : thread == 0) prefetch_l2(scale_a + (rowwise ? row + from : 0));
  if (rowwise ? from < columns && column + from < n : thread == 0) prefetch_l2(scale_b + (rowwise ? column + from : 0));
}
