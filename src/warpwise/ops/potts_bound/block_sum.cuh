// The sum of a block of kThreads threads, for k01 and k02.
#pragma once

#include <warpwise/core/reduce.cuh>

constexpr int kThreads = 256;
constexpr unsigned kAllLanes = warpwise::kFullMask;

// Stores the sum of all threads to partials: (gridDim.x, gridDim.y), in a fixed order.
__device__ inline void store_block_sum(double sum, double* partials) {
  __shared__ double warp_sums[kThreads / 32];
  sum = warpwise::block_reduce<warpwise::DoubleSum, kThreads>(sum, warp_sums);
  if (threadIdx.x == 0) partials[static_cast<long long>(blockIdx.x) * gridDim.y + blockIdx.y] = sum;
}
