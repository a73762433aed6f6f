// Backward for rows too long for registers: two passes of 16-byte loads, the second answered by the L2 cache.

#include <warpwise/core/reduce.cuh>
#include <warpwise/core/row_tile.cuh>

constexpr int kThreads = 1024;

// dy, y, dx: (rows, columns), contiguous. Grid: rows blocks of kThreads.
template <class T, bool ALIGNED>
__global__ void __launch_bounds__(kThreads) softmax_backward_long_rows(const T* __restrict__ dy,
                                                                       const T* __restrict__ y, T* __restrict__ dx,
                                                                       int columns) {
  using Team = warpwise::RowTile<T, kThreads, ALIGNED>;
  __shared__ float of_warp[warpwise::kWarp];
  const T zero = warpwise::from_float<T>(0.0f);
  const int turns = warpwise::cdiv(columns, Team::kColumnsPerTurn);
  const long long start = static_cast<long long>(blockIdx.x) * columns;
  dy += start;
  y += start;
  dx += start;

  float dot = 0.0f;
#pragma unroll 2
  for (int turn = 0; turn < turns; ++turn) {
    const auto gradient = Team::load(dy, columns, turn, zero);
    const auto probability = Team::load(y, columns, turn, zero);
#pragma unroll
    for (int e = 0; e < Team::kElements; ++e) {
      dot += warpwise::to_float(gradient.at[e]) * warpwise::to_float(probability.at[e]);
    }
  }
  dot = warpwise::block_reduce<warpwise::Sum, kThreads>(dot, of_warp);

#pragma unroll 2
  for (int turn = 0; turn < turns; ++turn) {
    const auto gradient = Team::load(dy, columns, turn, zero);
    const auto probability = Team::load(y, columns, turn, zero);
    warpwise::Pack<T> result;
#pragma unroll
    for (int e = 0; e < Team::kElements; ++e) {
      const float difference = warpwise::to_float(gradient.at[e]) - dot;
      result.at[e] = warpwise::from_float<T>(warpwise::to_float(probability.at[e]) * difference);
    }
    Team::store(dx, columns, turn, result);
  }
}
