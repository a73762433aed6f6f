// The row in registers: 16-byte loads; memory is read once and written once, the minimum for softmax.
//
// THREADS threads hold a row of up to THREADS * VECTORS * (BYTES / sizeof(T)) elements as float32 between load and
// store: 32 registers per thread hold 32768 columns with 1024 threads. Short rows use a warp or a part of one, without
// a barrier. A row below 16 bytes is one vector as long as the row, or one element in each of up to four threads.

#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/reduce.cuh>
#include <warpwise/core/row_tile.cuh>

// x, y: (rows, columns), contiguous; columns <= THREADS * VECTORS * (BYTES / sizeof(T)).
// Block: (THREADS, 1), or (THREADS, 128 / THREADS) up to a warp. Grid: cdiv(rows, rows in a block).
template <class T, int THREADS, int VECTORS, bool ALIGNED, int BYTES = 16,
          int BLOCK = warpwise::block_of_teams(THREADS)>
__global__ void __launch_bounds__(BLOCK) softmax_row_in_registers(const T* x, T* y, int rows, int columns) {
  using Tile = warpwise::RowTile<T, THREADS, ALIGNED, BYTES>;
  static_assert(VECTORS * Tile::kElements <= 32,
                "1024 threads have 64 registers each: more than 32 for the row would spill");
  __shared__ float warp_values[warpwise::kWarp];
  const long long row = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= rows) columns = 0;  // threads past the last row take part in their warp's shuffles and access no memory
  x += row * columns;
  y += row * columns;

  warpwise::wait_for_previous_kernel();
  float values[VECTORS][Tile::kElements];
  float max = warpwise::minus_infinity();
#pragma unroll
  for (int step = 0; step < VECTORS; ++step) {
    const auto loaded = Tile::load(x, columns, step, warpwise::from_float<T>(warpwise::minus_infinity()));
#pragma unroll
    for (int e = 0; e < Tile::kElements; ++e) {
      values[step][e] = warpwise::to_float(loaded.at[e]);
      max = fmaxf(max, values[step][e]);
    }
  }
  max = warpwise::team_reduce<warpwise::Max, THREADS>(max, warp_values);

  float sum = 0.0f;
#pragma unroll
  for (int step = 0; step < VECTORS; ++step) {
#pragma unroll
    for (int e = 0; e < Tile::kElements; ++e) {
      values[step][e] = warpwise::exponential<T>(values[step][e] - max);
      sum += values[step][e];
    }
  }
  const float scale = 1.0f / warpwise::team_reduce<warpwise::Sum, THREADS>(sum, warp_values);

#pragma unroll
  for (int step = 0; step < VECTORS; ++step) {
    typename Tile::Vector result;
#pragma unroll
    for (int e = 0; e < Tile::kElements; ++e) result.at[e] = warpwise::from_float<T>(values[step][e] * scale);
    Tile::store(y, columns, step, result);
  }
}
