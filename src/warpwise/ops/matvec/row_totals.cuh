// The end of k03 and k06: the sums of a team's threads become elements of y.
#pragma once

#include <warpwise/core/partial_sums.cuh>
#include <warpwise/core/reduce.cuh>

// y: (splits, m), rows first + r * period for r < ROWS. With a workspace, for ROWS 1, y is (m,), and the block of the
// last split adds the sums of the others in a fixed order: (m, splits - 1) words of 8 bytes, zeros before and after. A
// block then waits only for blocks with a lower index, which start before it. Block: (THREADS, teams). Grid: (any,
// splits).
template <int THREADS, int ROWS, class R>
__device__ inline void store_totals(float (&totals)[ROWS], R* y, int* workspace, long long m, long long first,
                                    long long period) {
  constexpr int kWarps = warpwise::cdiv(THREADS, warpwise::kWarp), kLanes = kWarps > 1 ? warpwise::kWarp : THREADS;
  __shared__ float of_warps[kWarps][ROWS];
  const int split = blockIdx.y, others = gridDim.y - 1;
  auto* const words = reinterpret_cast<unsigned long long*>(workspace);
  const auto store = [&](int r, float total) {
    const long long row = first + r * period;
    if (row >= m) return;
    if (workspace && split < others)
      warpwise::send_value(words + row * others + split, total);
    else
      y[(workspace ? 0 : split) * m + row] = warpwise::from_float<R>(total);
  };

  if constexpr (ROWS == 1) {
    if (workspace && split == others && first < m)
      totals[0] += warpwise::take_sum(words + first * others, others, threadIdx.x, THREADS, 1);
  }
#pragma unroll
  for (int r = 0; r < ROWS; ++r) totals[r] = warpwise::warp_reduce<warpwise::Sum, kLanes>(totals[r]);
  if constexpr (kWarps > 1) {
    const int warp = threadIdx.x / warpwise::kWarp, lane = threadIdx.x % warpwise::kWarp;
    if (lane == 0) {
#pragma unroll
      for (int r = 0; r < ROWS; ++r) of_warps[warp][r] = totals[r];
    }
    __syncthreads();
    if (threadIdx.x < ROWS) {
      float total = 0.0f;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) total += of_warps[w][threadIdx.x];
      store(threadIdx.x, total);
    }
  } else if (threadIdx.x == 0) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) store(r, totals[r]);
  }
}
