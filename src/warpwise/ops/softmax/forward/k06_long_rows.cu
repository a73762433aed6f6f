// Rows too long for registers: online statistics over 16-byte loads, and a second read that the L2 cache answers.
//
// 1024 threads a row. On an H200 the 132 rows in flight take 132 * 128k * 2 bytes = 34 MB of the 60 MB L2, so memory
// still sees each element about once. A vector's maximum is taken first, so the running sum is rescaled once in 16
// bytes.

#include <warpwise/core/reduce.cuh>
#include <warpwise/core/row_tile.cuh>

constexpr int kThreads = 1024;

// x, y: (rows, columns), contiguous. Grid: rows blocks of kThreads.
template <class T, bool ALIGNED>
__global__ void __launch_bounds__(kThreads) softmax_long_rows(const T* __restrict__ x, T* __restrict__ y, int columns) {
  using Team = warpwise::RowTile<T, kThreads, ALIGNED>;
  using Statistics = warpwise::MaxAndSum::Value;
  __shared__ Statistics of_warp[warpwise::kWarp];
  const T fill = warpwise::from_float<T>(warpwise::minus_infinity());
  const int turns = warpwise::cdiv(columns, Team::kColumnsPerTurn);
  x += static_cast<long long>(blockIdx.x) * columns;
  y += static_cast<long long>(blockIdx.x) * columns;

  Statistics row = warpwise::MaxAndSum::identity();
#pragma unroll 4
  for (int turn = 0; turn < turns; ++turn) {
    const auto loaded = Team::load(x, columns, turn, fill);
    float max = row.max;
#pragma unroll
    for (int e = 0; e < Team::kElements; ++e) max = fmaxf(max, warpwise::to_float(loaded.at[e]));
    row = {max, warpwise::MaxAndSum::rescaled(row, max)};
#pragma unroll
    for (int e = 0; e < Team::kElements; ++e) {
      const float value = warpwise::to_float(loaded.at[e]);
      row.sum += value == warpwise::minus_infinity() ? 0.0f : warpwise::exponential<T>(value - max);
    }
  }
  row = warpwise::block_reduce<warpwise::MaxAndSum, kThreads>(row, of_warp);

  const float scale = 1.0f / row.sum;
#pragma unroll 4
  for (int turn = 0; turn < turns; ++turn) {
    const auto loaded = Team::load(x, columns, turn, fill);
    warpwise::Pack<T> result;
#pragma unroll
    for (int e = 0; e < Team::kElements; ++e) {
      result.at[e] =
          warpwise::from_float<T>(warpwise::exponential<T>(warpwise::to_float(loaded.at[e]) - row.max) * scale);
    }
    Team::store(y, columns, turn, result);
  }
}
