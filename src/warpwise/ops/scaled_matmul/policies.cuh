// What L2 is told: to drop first what is read once, and to have ready what is needed last.
#pragma once

#include <warpwise/sm90/tma.cuh>

namespace sm90 = warpwise::sm90;

// What a box brings into L2: 0 as ever, 1 is the first to leave it, 2 the last. A call's hints are B's policy + 4 *
// A's.
__device__ inline sm90::CachePolicy policy_for(int which) {
  sm90::CachePolicy normal, last;
  asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(normal));
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(last));
  return which == 1 ? sm90::createpolicy_evict_first() : which == 2 ? last : normal;
}

__device__ inline void fetch(const float* address) { asm volatile("prefetch.global.L2 [%0];" ::"l"(address)); }

// The scales of `rows` x `columns` of C, brought into L2 by the first threads of `thread`'s group while something else
// is waited for.
__device__ inline void fetch_scales(const float* scale_a, const float* scale_b, bool by_row, int row, int column,
                                    int rows, int columns, int m, int n, int thread) {
  const int from = thread * 32;  // floats of a line of 128 bytes
  if (by_row ? from < rows && row + from < m : thread == 0) fetch(scale_a + (by_row ? row + from : 0));
  if (by_row ? from < columns && column + from < n : thread == 0) fetch(scale_b + (by_row ? column + from : 0));
}
