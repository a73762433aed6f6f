// The sums of k04 over lanes, warps and blocks, in a fixed order.
#pragma once

#include "fragment_products.cuh"
#include "fragment_update.cuh"
#include "slot_totals.cuh"

// A block's sums: (kSlots, 32). The moments are in memory.sums_of_parts already; all threads have passed a barrier.
template <class Plan, class Update>
__device__ inline void store_partials(float* partials, const FragmentMemory<Plan>& memory, const Update& update) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float* const own = memory.others + warp * Plan::kOthers * 32 + lane;
#pragma unroll
  for (int m = 0; m < Plan::TILES; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {  // over the points, of which four lanes have two each
      const float pair = update.count[m][h] + __shfl_xor_sync(kAllLanes, update.count[m][h], 1);
      own[(2 * m + h) * 32] = pair + __shfl_xor_sync(kAllLanes, pair, 2);
    }
  }
  own[(Plan::kOthers - 2) * 32] = team_sum<32>(update.gradient);
  own[(Plan::kOthers - 1) * 32] = team_sum<32>(update.curvature);
  add_warps<Plan>(partials, memory);
}

// After all blocks: their partials are added. shared: 4 kThreads floats.
template <class Plan, int BLOCKS, class Lane>
__device__ inline void add_partials(float* shared, const float* partials, float* sums, float* counts,
                                    float* derivatives, int restarts, int domains, int width) {
  const int restart = blockIdx.y, lane = threadIdx.x % 32, group = lane / 4, index = lane % 4;
  add_blocks<Plan, BLOCKS>(shared, partials, restarts, [&](int slot, float total) {
    const int counted = slot - Plan::kMoments, slope = counted - 2 * Plan::TILES;
    if (counted < 0) {  // [tile][lane][4]
      const int at = 32 * slot + lane, of = at / 4 % 32, m = at / (128 * Plan::STEPS);
      const int k = Lane::domain(m, of / 4, at % 4 / 2), d = at / 128 % Plan::STEPS * 8 + 2 * (of % 4) + at % 2;
      if (k < domains && d < width) sums[(static_cast<long long>(restart) * domains + k) * width + d] = total;
    } else if (slope < 0) {
      const int k = Lane::domain(counted / 2, group, counted % 2);
      if (index == 0 && k < domains) counts[restart * domains + k] = total;
    } else if (derivatives && lane == 0) {
      derivatives[slope * restarts + restart] = total;
    }
  });
}
