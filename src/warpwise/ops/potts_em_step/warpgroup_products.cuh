// The products of k09 by wgmma: scores, with each of the two parts of a coefficient, and moments q^T x.
#pragma once

#include "warpgroup_plan.cuh"

// scores[m][h][2 j + x] of points `group` + 8 j of the warp's 16: the offset, and the product of the features and the
// coefficients. x: 64 rows of features. meanwhile() runs while they are computed. All threads of the warpgroup.
template <class Plan, class Meanwhile>
__device__ inline void find_scores(float (&scores)[Plan::TILES][2][4], const float* x, const float* coefficients,
                                   const float* offsets, const Meanwhile& meanwhile) {
  namespace sm90 = warpwise::sm90;
  const auto a = Plan::Features::descriptor(x), b = Plan::Features::descriptor(coefficients);
  constexpr int kPartBytes = 4 * WarpgroupMemory<Plan>::kPart;
  auto& sums = reinterpret_cast<float (&)[Plan::kSums]>(scores);
#pragma unroll
  for (int n = 0; n < 2 * Plan::TILES; ++n) {
    const auto two = *reinterpret_cast<const warpwise::Vector<float, 2>*>(offsets + 8 * n);
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[4 * n + i] = two.at[i % 2];
  }
  sm90::warpgroup_fence_operand(sums);
  sm90::wgmma_fence();
#pragma unroll
  for (int part = 1; part >= 0; --part) {
#pragma unroll
    for (int s = 0; s < Plan::kSteps; ++s) {
      const unsigned step = s / 4 * 1024 + s % 4 * 32;
      sm90::wgmma<typename Plan::X, Plan::kColumns>(sums, a.at(step), b.at(part * kPartBytes + step), true);
    }
  }
  sm90::wgmma_commit_group();
  meanwhile();
  sm90::wgmma_wait_group<0>();
  sm90::warpgroup_fence_operand(sums);
}

// The moments of a block in the registers of a warpgroup: features are the rows of the accumulators, domains their
// columns. Tensor cores round their sums towards zero, so that the sums of kKept tiles are added to those in shared
// memory.
template <class Plan>
struct WarpgroupMoments {
  static constexpr int kKept = 8;
  const WarpgroupMemory<Plan>& memory;
  int thread;    // of the warpgroup
  int kept = 0;  // tiles whose sums are in registers
  float sums[Plan::kUnits][Plan::kSums];
  float counts[2] = {}, totals[2] = {};  // of two domains, for half of the points: of the kept tiles, and before

  __device__ WarpgroupMoments(const WarpgroupMemory<Plan>& of) : memory(of), thread(threadIdx.x % 128) {}

  // Adds the tile of an updater, whose features are on `side`.
  __device__ void add(int updater, int side) {
    namespace sm90 = warpwise::sm90;
    const float* const q_tile = memory.q_tiles + updater * Plan::kRows * Plan::kStrideOfQ;
    count(q_tile);
    const auto a =
        Plan::Features::descriptor(memory.tiles + (side * Plan::kTile + updater * Plan::kRows) * Plan::kStride);
    const auto b = Plan::Probabilities::descriptor(q_tile);
#pragma unroll
    for (int unit = 0; unit < Plan::kUnits; ++unit) sm90::warpgroup_fence_operand(sums[unit]);
    sm90::wgmma_fence();
#pragma unroll
    for (int step = 0; step < Plan::kRows / 16; ++step) {
#pragma unroll
      for (int unit = 0; unit < Plan::kUnits; ++unit) {
        sm90::wgmma<typename Plan::X, Plan::kColumns, true, true>(
            sums[unit], a.at(2 * step * Plan::Features::kBytes + 1024 * unit),
            b.at(2 * step * Plan::Probabilities::kBytes), kept > 0 || step > 0);
      }
    }
    sm90::wgmma_commit_group();
    sm90::wgmma_wait_group<0>();
#pragma unroll
    for (int unit = 0; unit < Plan::kUnits; ++unit) sm90::warpgroup_fence_operand(sums[unit]);
    if (++kept == kKept) flush();
  }

  // Adds word `thread` % 64 of the rows of q of a tile: threads below 64 have the first half of the points.
  __device__ void count(const float* q_tile) {
    const int word = thread % 64, first = thread / 64 * (Plan::kRows / 2);
    if (2 * word >= Plan::kColumns) return;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const unsigned row = warpwise::shared_address(q_tile) + Plan::Probabilities::place(first + i, word / 4);
#pragma unroll
      for (int j = 0; j < Plan::kRows / 16; ++j) {
        const unsigned two = warpwise::ld_shared(row + word % 4 * 4 + j * Plan::Probabilities::kBytes);
        counts[0] += __uint_as_float(two << 16);
        counts[1] += __uint_as_float(two & 0xffff0000u);
      }
    }
  }

  // Adds the sums of the kept tiles to those in shared memory, and their counts to the totals: a long sum of single
  // points would be inexact.
  __device__ void flush() {
    if (kept == 0) return;
    kept = 0;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      totals[i] += counts[i];
      counts[i] = 0.0f;
    }
#pragma unroll
    for (int unit = 0; unit < Plan::kUnits; ++unit) {
#pragma unroll
      for (int i = 0; i < Plan::kSums; i += 4) {
        auto& to = reinterpret_cast<warpwise::Float4*>(memory.sums_of_parts)[(unit * Plan::kSums + i) * 32 + thread];
        warpwise::Float4 total = to;
#pragma unroll
        for (int e = 0; e < 4; ++e) total.at[e] += sums[unit][i + e];
        to = total;
      }
    }
  }

  // After the last tile. The sum of zero and two numbers does not depend on their order.
  __device__ void finish() {
    flush();
    const int k = 2 * (thread % 64);
    if (k >= Plan::kColumns) return;
    atomicAdd(memory.sums_of_parts + 32 * Plan::kCounts + k, totals[0]);
    atomicAdd(memory.sums_of_parts + 32 * Plan::kCounts + k + 1, totals[1]);
  }

  // Stores the total at `at` in a block's sums.
  static __device__ void store(int at, float total, float* sums, float* counts, int domains, int width) {
    if (at >= 32 * Plan::kCounts) {
      const int k = at - 32 * Plan::kCounts;
      if (k < domains) counts[k] = total;
      return;
    }
    const int thread = at / 4 % 128, lane = thread % 32, sum = at / 512 * 4 % Plan::kSums + at % 4;
    const int d = 64 * (at / (128 * Plan::kSums)) + 16 * (thread / 32) + lane / 4 + sum / 2 % 2 * 8;
    const int k = sum / 4 * 8 + 2 * (lane % 4) + sum % 2;
    if (k < domains && d < width) sums[static_cast<long long>(k) * width + d] = total;
  }
};
