// For few long rows: several blocks share a row. One launch writes the statistics of each part of a row, and a second
// one combines them in order and computes the result, so all SMs read even if there are fewer rows than SMs.

#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/reduce.cuh>
#include <warpwise/core/row_tile.cuh>

constexpr int kThreads = 256, kBatch = 4;
using Statistics = warpwise::MaxAndSum::Value;

// The maximum first, then the sums rescaled to it: one exponential per thread, where shuffles of both would have ten.
__device__ inline Statistics of_block(Statistics own, float* warp_values) {
  const float max = warpwise::block_reduce<warpwise::Max, kThreads>(own.max, warp_values);
  return {max, warpwise::block_reduce<warpwise::Sum, kThreads>(warpwise::MaxAndSum::rescaled(own, max), warp_values)};
}

// x: (rows, columns), contiguous; partial: (rows, parts, 2), maximum and sum. Grid: (parts, rows) blocks of kThreads. A
// part has `share` columns, a multiple of Tile::kColumnsPerStep.
template <class T, bool ALIGNED>
__global__ void __launch_bounds__(kThreads) softmax_parts(const T* x, float* partial, int columns, int share) {
  using Tile = warpwise::RowTile<T, kThreads, ALIGNED>;
  __shared__ float warp_values[warpwise::kWarp];
  const T fill = warpwise::from_float<T>(warpwise::minus_infinity());
  const int first = static_cast<int>(blockIdx.x) * share, count = min(share, columns - first);
  x += static_cast<long long>(blockIdx.y) * columns + first;
  warpwise::wait_for_previous_kernel();
  Statistics all = warpwise::MaxAndSum::identity();
#pragma unroll 1
  for (int step = 0; step * Tile::kColumnsPerStep < count; step += kBatch) {
    typename Tile::Vector loaded[kBatch];
#pragma unroll
    for (int v = 0; v < kBatch; ++v) loaded[v] = Tile::load(x, count, step + v, fill);
    float max = all.max;
#pragma unroll
    for (int v = 0; v < kBatch; ++v) {
#pragma unroll
      for (int e = 0; e < Tile::kElements; ++e) max = fmaxf(max, warpwise::to_float(loaded[v].at[e]));
    }
    all = {max, warpwise::MaxAndSum::rescaled(all, max)};
    const float base = max == warpwise::minus_infinity() ? 0.0f : max;  // no NaN from -inf - -inf
#pragma unroll
    for (int v = 0; v < kBatch; ++v) {
#pragma unroll
      for (int e = 0; e < Tile::kElements; ++e)
        all.sum += warpwise::exponential<T>(warpwise::to_float(loaded[v].at[e]) - base);
    }
  }
  all = of_block(all, warp_values);
  if (threadIdx.x == 0)
    reinterpret_cast<Statistics*>(partial)[static_cast<long long>(blockIdx.y) * gridDim.x + blockIdx.x] = all;
}

// y: (rows, columns). The same grid, blocks and share.
template <class T, bool ALIGNED>
__global__ void __launch_bounds__(kThreads) softmax_from_parts(const T* x, const float* partial, T* y, int columns,
                                                               int share) {
  using Tile = warpwise::RowTile<T, kThreads, ALIGNED>;
  const T fill = warpwise::from_float<T>(warpwise::minus_infinity());
  const int first = static_cast<int>(blockIdx.x) * share, count = min(share, columns - first);
  const long long start = static_cast<long long>(blockIdx.y) * columns + first;
  warpwise::wait_for_previous_kernel();
  const auto* const of_row =
      reinterpret_cast<const Statistics*>(partial) + static_cast<long long>(blockIdx.y) * gridDim.x;
  // Each warp combines the parts: that takes no barrier.
  Statistics all = warpwise::MaxAndSum::identity();
  for (int part = threadIdx.x % warpwise::kWarp; part < gridDim.x; part += warpwise::kWarp)
    all = warpwise::MaxAndSum::combine(all, of_row[part]);
  const float max = warpwise::warp_reduce<warpwise::Max>(all.max);
  all = {max, warpwise::warp_reduce<warpwise::Sum>(warpwise::MaxAndSum::rescaled(all, max))};
  const float scale = 1.0f / all.sum;
#pragma unroll 4
  for (int step = 0; step < warpwise::cdiv(count, Tile::kColumnsPerStep); ++step) {
    const auto loaded = Tile::load(x + start, count, step, fill);
    warpwise::Pack<T> result;
#pragma unroll
    for (int e = 0; e < Tile::kElements; ++e) {
      const float difference = warpwise::to_float(loaded.at[e]) - all.max;
      result.at[e] = warpwise::from_float<T>(warpwise::exponential<T>(difference) * scale);
    }
    Tile::store(y + start, count, step, result);
  }
}
