// The sums of k07 and k10 over lanes, warps and blocks, in a fixed order.
#pragma once

#include "selection_products.cuh"
#include "selection_update.cuh"
#include "slot_totals.cuh"

// A block's sums: (kSlots, 32). The moments are in memory.sums_of_parts already; all threads have passed a barrier.
template <class Plan, class Update>
__device__ inline void store_partials(float* partials, const SelectionMemory<Plan>& memory, const Update& update) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float* const own = memory.others + warp * Plan::kOthers * 32 + lane;
  own[0] = team_sum<32>(update.gradient);
  own[32] = team_sum<32>(update.curvature);
  add_warps<Plan>(partials, memory);
}

// After all blocks: their partials are added. shared: 4 kThreads floats; words: of a row of features.
template <class Plan, int BLOCKS>
__device__ inline void add_partials(float* shared, const float* partials, float* sums, float* counts,
                                    float* derivatives, int restarts, int domains, int width, int words) {
  const int restart = blockIdx.y, lane = threadIdx.x % 32, one = Plan::one(words);
  add_blocks<Plan, BLOCKS>(shared, partials, restarts, [&](int slot, float total) {
    const int counted = slot - Plan::kMoments;
    if (counted < 0) {  // [tile][tile of features][lane][4]: row `of / 4` of the transposed pairs x
      const int at = 32 * slot + lane, of = at / 4 % 32, m = at / (128 * Plan::FEATURES);
      const int k = Plan::domain_of(m, of / 4, at % 4 / 2);
      const int d = at / 128 % Plan::FEATURES * 8 + 2 * (of % 4) + at % 2;
      if (k < domains && d < width) sums[(static_cast<long long>(restart) * domains + k) * width + d] = total;
      if (k < domains && d == one) counts[restart * domains + k] = total;
    } else if (derivatives && lane == 0) {
      derivatives[counted * restarts + restart] = total;
    }
  });
}
