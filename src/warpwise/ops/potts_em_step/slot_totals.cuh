// The sums of lanes over the warps of a block and over all blocks, in a fixed order, for k04, k06 and k07.
#pragma once

// A block's sums: (kSlots, 32), of the moments of its parts and the other sums of its warps in shared memory.
template <class Plan, class Memory>
__device__ inline void add_warps(float* partials, const Memory& memory) {
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

// A slot's 32 sums over the blocks that a warp adds, every kWarps-th one, to shared: (kWarps, 32). partials:
// (gridDim.x, restarts, kSlots, 32).
template <class Plan>
__device__ inline void add_blocks(float* shared, const float* partials, int slot, int restarts) {
  constexpr int kRows = 16;  // in flight
  const int restart = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
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
}

// The sum of shared: (kWarps, 32) over the warps.
template <class Plan>
__device__ inline float sum_of_warps(const float* shared, int lane) {
  float total = 0.0f;
#pragma unroll
  for (int w = 0; w < Plan::kWarps; ++w) total += shared[32 * w + lane];
  return total;
}
