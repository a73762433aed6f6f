// The mean of a batch's losses by one launch: the last block adds the sums of the others, in a fixed order.
#pragma once

#include <warpwise/core/partial_sums.cuh>
#include <warpwise/core/reduce.cuh>

namespace warpwise {

// loss = the sum of all threads' `sum`, divided by count = that of their `counted`. All threads of all blocks call it.
// warp_values: kWarp floats of shared memory; sums, counts: (gridDim.x) and a semaphore that is 0, or null for one
// block.
template <int THREADS>
__device__ inline void store_mean_loss(float counted, float sum, float* warp_values, float* sums, float* counts,
                                       int* semaphore, float* loss, long long* count) {
  sum = block_reduce<Sum, THREADS>(sum, warp_values);
  counted = block_reduce<Sum, THREADS>(counted, warp_values);
  if (gridDim.x > 1) {
    if (threadIdx.x == 0) {
      sums[blockIdx.x] = sum;
      counts[blockIdx.x] = counted;
    }
    if (!is_last_block(semaphore, gridDim.x)) return;
    sum = counted = 0.0f;
    for (int block = threadIdx.x; block < gridDim.x; block += THREADS) {
      sum += __ldcg(sums + block);
      counted += __ldcg(counts + block);
    }
    sum = block_reduce<Sum, THREADS>(sum, warp_values);
    counted = block_reduce<Sum, THREADS>(counted, warp_values);
  }
  if (threadIdx.x == 0) {
    *loss = sum / counted;
    *count = static_cast<long long>(counted);
  }
}

}  // namespace warpwise
