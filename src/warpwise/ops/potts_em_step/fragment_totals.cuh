// The sums of k04 over lanes, warps and blocks, in a fixed order.
#pragma once

#include "fragment_products.cuh"
#include "fragment_update.cuh"

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
  Plan::sync();
  for (int i = threadIdx.x; i < 32 * Plan::kSlots; i += Plan::kThreads) {
    const bool moment = i < 32 * Plan::kMoments;
    const float* const from = moment ? memory.sums_of_parts + i : memory.others + i - 32 * Plan::kMoments;
    float total = 0.0f;
#pragma unroll
    for (int w = 0; w < Plan::kWarps; ++w) {
      if (w < Plan::kParts || !moment) total += from[w * 32 * (moment ? Plan::kMoments : Plan::kOthers)];
    }
    partials[i] = total;
  }
}

// After all blocks: partials (gridDim.x, restarts, kSlots, 32) are added. Of a slot's 32 sums a warp adds every
// kWarps-th block's. shared: kThreads floats.
template <class Plan, class Lane>
__device__ inline void add_partials(float* shared, const float* partials, float* sums, float* counts,
                                    float* derivatives, int restarts, int domains, int width) {
  constexpr int kRows = 16;  // in flight
  const int restart = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, index = lane % 4;
  for (int slot = blockIdx.x; slot < Plan::kSlots; slot += gridDim.x) {
    float total = 0.0f;
    for (int first = warp; first < gridDim.x; first += kRows * Plan::kWarps) {
      float rows[kRows];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const int block = first + i * Plan::kWarps;
        const long long at = (static_cast<long long>(block) * restarts + restart) * Plan::kSlots + slot;
        rows[i] = block < gridDim.x ? partials[32 * at + lane] : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < kRows; ++i) total += rows[i];
    }
    Plan::sync();
    shared[threadIdx.x] = total;
    Plan::sync();
    if (warp > 0) continue;
    total = 0.0f;
#pragma unroll
    for (int w = 0; w < Plan::kWarps; ++w) total += shared[32 * w + lane];
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
  }
}
