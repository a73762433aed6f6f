// The sums of k07 over lanes, warps and blocks, in a fixed order.
#pragma once

#include "selection_products.cuh"
#include "selection_update.cuh"

// A block's sums: (kSlots, 32). The moments are in memory.sums_of_parts already; all threads have passed a barrier.
template <class Plan, class Update>
__device__ inline void store_partials(float* partials, const SelectionMemory<Plan>& memory, const Update& update) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float* const own = memory.others + warp * Plan::kOthers * 32 + lane;
  own[0] = team_sum<32>(update.gradient);
  own[32] = team_sum<32>(update.curvature);
  __syncthreads();
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
template <class Plan>
__device__ inline void add_partials(float* shared, const float* partials, float* sums, float* counts,
                                    float* derivatives, int restarts, int domains, int width) {
  constexpr int kRows = 16;  // in flight
  const int restart = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32, one = (width + 3) / 4 * 4;
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
    __syncthreads();
    shared[threadIdx.x] = total;
    __syncthreads();
    if (warp > 0) continue;
    total = 0.0f;
#pragma unroll
    for (int w = 0; w < Plan::kWarps; ++w) total += shared[32 * w + lane];
    const int counted = slot - Plan::kMoments;
    if (counted < 0) {  // [tile][tile of features][lane][4]: row `of / 4` of the transposed pairs x
      const int at = 32 * slot + lane, of = at / 4 % 32, m = at / (128 * Plan::FEATURES);
      const int k = RowLanes<Plan::TILES>::domain(m, of / 8, of / 4 % 2, at % 4 / 2);
      const int d = at / 128 % Plan::FEATURES * 8 + 2 * (of % 4) + at % 2;
      if (k < domains && d < width) sums[(static_cast<long long>(restart) * domains + k) * width + d] = total;
      if (k < domains && d == one) counts[restart * domains + k] = total;
    } else if (derivatives && lane == 0) {
      derivatives[counted * restarts + restart] = total;
    }
  }
}
