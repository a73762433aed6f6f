// The sums of lanes over the warps of a block and over all blocks, in a fixed order, for k04 and k06 to k10.
#pragma once

#include <warpwise/core/float4.cuh>
#include <warpwise/core/numeric.cuh>

// A block's sums: (kSlots, 32), of the moments of its parts and the other sums of its warps in shared memory. partials
// and shared memory are aligned to 16 bytes.
template <class Plan, class Memory>
__device__ inline void add_warps(float* partials, const Memory& memory) {
  using warpwise::Float4;
  constexpr int kMoments = 32 * Plan::kMoments;
  Plan::sync();
#pragma unroll 2
  for (int i = 4 * threadIdx.x; i < 32 * Plan::kSlots; i += 4 * Plan::kThreads) {
    const bool moment = i < kMoments;
    const float* const from = moment ? memory.sums_of_parts + i : memory.others + i - kMoments;
    Float4 total = {};
#pragma unroll
    for (int w = 0; w < Plan::kWarps; ++w) {
      if (w >= Plan::kParts && moment) continue;
      const auto part = *reinterpret_cast<const Float4*>(from + w * (moment ? kMoments : 32 * Plan::kOthers));
#pragma unroll
      for (int e = 0; e < 4; ++e) total.at[e] += part.at[e];
    }
    *reinterpret_cast<Float4*>(partials + i) = total;
  }
}

// Adds the sums of all blocks: store(slot, total) gets those of a slot in 32 lanes. partials: (gridDim.x, restarts,
// kSlots, 32), of up to BLOCKS resident blocks per SM. shared: 4 kThreads floats.
//
// The latency of a load exceeds the time of all additions, so a warp loads as many rows of up to four slots as fit in
// kMost registers before it adds them. kSMs: more than the SMs of an H200 (132). kEach: the slots of a block in a grid
// of 128 blocks.
template <class Plan, int BLOCKS, class Store>
__device__ inline void add_blocks(float* shared, const float* partials, int restarts, const Store& store) {
  constexpr int kSMs = 152, kMost = BLOCKS > 1 ? 72 : 120;
  constexpr int kEach = warpwise::cdiv(Plan::kSlots, 128), kAtOnce = kEach < 4 ? kEach : 4;
  constexpr int kAll = warpwise::cdiv(kSMs * BLOCKS, Plan::kWarps);
  constexpr int kRows = kAll < kMost / kAtOnce ? kAll : kMost / kAtOnce;
  static_assert(kAtOnce <= Plan::kWarps, "a warp adds one slot over the warps");
  const int restart = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int first = blockIdx.x; first < Plan::kSlots; first += kAtOnce * gridDim.x) {
    float totals[kAtOnce] = {};
    for (int begin = warp; begin < gridDim.x; begin += kRows * Plan::kWarps) {
      float rows[kAtOnce][kRows];
#pragma unroll
      for (int i = 0; i < kAtOnce * kRows; ++i) {
        const int block = begin + i % kRows * Plan::kWarps, slot = first + i / kRows * gridDim.x;
        const long long at = (static_cast<long long>(block) * restarts + restart) * Plan::kSlots + slot;
        rows[i / kRows][i % kRows] = block < gridDim.x && slot < Plan::kSlots ? partials[32 * at + lane] : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < kAtOnce * kRows; ++i) totals[i / kRows] += rows[i / kRows][i % kRows];
    }
    Plan::sync();
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) shared[j * Plan::kThreads + threadIdx.x] = totals[j];
    Plan::sync();
    const int slot = first + warp * gridDim.x;
    if (warp >= kAtOnce || slot >= Plan::kSlots) continue;
    float total = 0.0f;
#pragma unroll
    for (int w = 0; w < Plan::kWarps; ++w) total += shared[warp * Plan::kThreads + 32 * w + lane];
    store(slot, total);
  }
}
