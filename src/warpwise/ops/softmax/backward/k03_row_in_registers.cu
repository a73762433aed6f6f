// Backward with both rows in registers: 16-byte loads; dy and y are read once and dx is written once, the minimum.
//
// 16 elements of each input take up to 32 registers per thread, so 1024 threads hold rows of 16384 columns.

#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/reduce.cuh>
#include <warpwise/core/row_tile.cuh>

// dy, y, dx: (rows, columns), contiguous; columns <= THREADS * VECTORS * (BYTES / sizeof(T)).
// Block: (THREADS, 1), or (THREADS, 128 / THREADS) up to a warp. Grid: cdiv(rows, rows in a block).
template <class T, int THREADS, int VECTORS, bool ALIGNED, int BYTES = 16,
          int BLOCK = warpwise::block_of_teams(THREADS)>
__global__ void __launch_bounds__(BLOCK) softmax_backward_row_in_registers(const T* dy, const T* y, T* dx, int rows,
                                                                           int columns) {
  using Tile = warpwise::RowTile<T, THREADS, ALIGNED, BYTES>;
  static_assert(VECTORS * Tile::kElements <= 16, "two rows of more than 16 elements a thread spill at 64 registers");
  __shared__ float warp_values[warpwise::kWarp];
  const long long row = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= rows) columns = 0;  // threads past the last row take part in their warp's shuffles and access no memory
  dy += row * columns;
  y += row * columns;
  dx += row * columns;

  warpwise::wait_for_previous_kernel();
  const T zero = warpwise::from_float<T>(0.0f);
  typename Tile::Vector gradient[VECTORS], probability[VECTORS];
#pragma unroll
  for (int step = 0; step < VECTORS; ++step) {
    gradient[step] = Tile::load(dy, columns, step, zero);
    probability[step] = Tile::load(y, columns, step, zero);
  }

  float dot = 0.0f;
#pragma unroll
  for (int step = 0; step < VECTORS; ++step) {
#pragma unroll
    for (int e = 0; e < Tile::kElements; ++e) {
      dot += warpwise::to_float(gradient[step].at[e]) * warpwise::to_float(probability[step].at[e]);
    }
  }
  dot = warpwise::team_reduce<warpwise::Sum, THREADS>(dot, warp_values);

#pragma unroll
  for (int step = 0; step < VECTORS; ++step) {
    typename Tile::Vector result;
#pragma unroll
    for (int e = 0; e < Tile::kElements; ++e) {
      const float difference = warpwise::to_float(gradient[step].at[e]) - dot;
      result.at[e] = warpwise::from_float<T>(warpwise::to_float(probability[step].at[e]) * difference);
    }
    Tile::store(dx, columns, step, result);
  }
}
