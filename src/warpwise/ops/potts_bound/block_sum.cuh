// The sum of a block of kThreads threads, for k01 and k02.
#pragma once

constexpr int kThreads = 256;
constexpr unsigned kAllLanes = 0xffffffffu;

// Stores the sum of all threads to partials: (gridDim.x, gridDim.y), in a fixed order.
__device__ inline void store_block_sum(double sum, double* partials) {
  __shared__ double warp_sums[kThreads / 32];
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(kAllLanes, sum, distance);
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x > 0) return;
  double total = 0.0;
  for (int warp = 0; warp < kThreads / 32; ++warp) total += warp_sums[warp];
  partials[static_cast<long long>(blockIdx.x) * gridDim.y + blockIdx.y] = total;
}
