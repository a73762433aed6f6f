// Rows too long for registers: online statistics over 16-byte loads, and a second read that hits in L2.
//
// 1024 threads per row. On an H200 the 132 rows in flight take 132 * 128k * 2 bytes = 34 MB of the 60 MB L2, so DRAM
// delivers each element about once. The maximum of a 16-byte vector is computed first, so the running sum is rescaled
// once per vector.

#include <warpwise/core/reduce.cuh>
#include <warpwise/core/row_tile.cuh>

constexpr int kThreads = 1024;

// x, y: (rows, columns), contiguous. Grid: rows blocks of kThreads.
template <class T, bool ALIGNED>
__global__ void __launch_bounds__(kThreads) softmax_long_rows(const T* __restrict__ x, T* __restrict__ y, int columns) {
  using Tile = warpwise::RowTile<T, kThreads, ALIGNED>;
  using Statistics = warpwise::MaxAndSum::Value;
  __shared__ Statistics warp_values[warpwise::kWarp];
  const T fill = warpwise::from_float<T>(warpwise::minus_infinity());
  const int steps = warpwise::cdiv(columns, Tile::kColumnsPerStep);
  x += static_cast<long long>(blockIdx.x) * columns;
  y += static_cast<long long>(blockIdx.x) * columns;

  Statistics row = warpwise::MaxAndSum::identity();
#pragma unroll 4
  for (int step = 0; step < steps; ++step) {
    const auto loaded = Tile::load(x, columns, step, fill);
    float max = row.max;
#pragma unroll
    for (int e = 0; e < Tile::kElements; ++e) max = fmaxf(max, warpwise::to_float(loaded.at[e]));
    row = {max, warpwise::MaxAndSum::rescaled(row, max)};
#pragma unroll
    for (int e = 0; e < Tile::kElements; ++e) {
      const float value = warpwise::to_float(loaded.at[e]);
      row.sum += value == warpwise::minus_infinity() ? 0.0f : warpwise::exponential<T>(value - max);
    }
  }
  row = warpwise::block_reduce<warpwise::MaxAndSum, kThreads>(row, warp_values);

  const float scale = 1.0f / row.sum;
#pragma unroll 4
  for (int step = 0; step < steps; ++step) {
    const auto loaded = Tile::load(x, columns, step, fill);
    warpwise::Pack<T> result;
#pragma unroll
    for (int e = 0; e < Tile::kElements; ++e) {
      result.at[e] =
          warpwise::from_float<T>(warpwise::exponential<T>(warpwise::to_float(loaded.at[e]) - row.max) * scale);
    }
    Tile::store(y, columns, step, result);
  }
}
