// The second launch of k01: the sums over its blocks.
#pragma once

#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/reduce.cuh>

constexpr int kThreads = 256, kWarps = kThreads / warpwise::kWarp;

// dw: (classes, features) and db: (classes) or null from the parts of `blocks` blocks, and the loss from their losses.
// A warp adds every kWarps-th part of 32 adjacent elements; the sums of the warps are added in order.
// Grid: cdiv(classes * (features + 1), 32), and a block for the loss.
__global__ void __launch_bounds__(kThreads) add_parts(const float* parts, const float* losses, float* dw, float* db,
                                                      float* loss, int blocks, int features, int classes) {
  warpwise::wait_for_previous_kernel();
  __shared__ float warp_sums[kWarps][warpwise::kWarp];
  const int warp = threadIdx.x / warpwise::kWarp, lane = threadIdx.x % warpwise::kWarp;
  const bool of_loss = blockIdx.x + 1 == gridDim.x;
  const int elements = of_loss ? warpwise::kWarp : classes * (features + 1);
  const int at = of_loss ? lane : blockIdx.x * warpwise::kWarp + lane;
  float sum = 0.0f;
  if (of_loss) {
    for (int block = threadIdx.x; block < blocks; block += kThreads) sum += losses[block];
  } else {
#pragma unroll 8
    for (int block = warp; block < blocks; block += kWarps)
      sum += at < elements ? parts[static_cast<long long>(block) * elements + at] : 0.0f;
  }
  warp_sums[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || at >= elements) return;
#pragma unroll
  for (int of_warp = 1; of_warp < kWarps; ++of_warp) sum += warp_sums[of_warp][lane];
  if (of_loss) {
    sum = warpwise::warp_reduce<warpwise::Sum>(sum);
    if (lane == 0) *loss = sum / losses[blocks];
    return;
  }
  const int c = at / (features + 1), column = at % (features + 1);
  if (column < features) {
    dw[c * features + column] = sum;
  } else if (db) {
    db[c] = sum;
  }
}
