// The sums of k03 over all blocks, in a fixed order.
#pragma once

#include "warp_plan.cuh"

// After all blocks: a warp adds those of one sum. partials: (restarts, size, gridDim.x), size = domains * width +
// domains + 2.
__device__ inline void add_partials(const float* partials, float* sums, float* counts, float* derivatives, int restarts,
                                    int domains, int width) {
  const int restart = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int moment = domains * width, size = moment + domains + 2;
  for (int i = blockIdx.x * kWarps + warp; i < size; i += gridDim.x * kWarps) {
    const float* const from = partials + (static_cast<long long>(restart) * size + i) * gridDim.x;
    float total = 0.0f;
#pragma unroll 8
    for (int block = lane; block < gridDim.x; block += 32) total += from[block];
    total = team_sum<32>(total);
    const int slope = i - moment - domains;
    if (lane > 0) continue;
    if (i < moment) {
      sums[static_cast<long long>(restart) * moment + i] = total;
    } else if (slope < 0) {
      counts[restart * domains + i - moment] = total;
    } else if (derivatives) {
      derivatives[slope * restarts + restart] = total;
    }
  }
}
