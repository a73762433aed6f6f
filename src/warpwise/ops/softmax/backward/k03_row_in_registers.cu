// Backward with both rows in registers: 16-byte loads, dy and y read once and dx written once, the least there is.
//
// 16 elements of each input are up to 32 registers a thread, and 1024 threads carry 16384 columns.

#include <warpwise/core/reduce.cuh>
#include <warpwise/core/row_tile.cuh>

// dy, y, dx: (rows, columns), contiguous; columns <= THREADS * VECTORS * Pack<T>::size.
// Block: (THREADS, 1), or (THREADS, 128 / THREADS) up to a warp. Grid: cdiv(rows, rows in a block).
template <class T, int THREADS, int VECTORS, bool ALIGNED, int BLOCK = warpwise::block_of_teams(THREADS)>
__global__ void __launch_bounds__(BLOCK) softmax_backward_row_in_registers(const T* dy, const T* y, T* dx, int rows,
                                                                           int columns) {
  using Team = warpwise::RowTile<T, THREADS, ALIGNED>;
  static_assert(VECTORS * Team::kElements <= 16, "two rows of more than 16 elements a thread spill at 64 registers");
  __shared__ float of_warp[warpwise::kWarp];
  const long long row = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= rows) columns = 0;  // a team past the end stays for its warp's shuffles, and touches nothing
  dy += row * columns;
  y += row * columns;
  dx += row * columns;

  const T zero = warpwise::from_float<T>(0.0f);
  warpwise::Pack<T> gradient[VECTORS], probability[VECTORS];
#pragma unroll
  for (int turn = 0; turn < VECTORS; ++turn) {
    gradient[turn] = Team::load(dy, columns, turn, zero);
    probability[turn] = Team::load(y, columns, turn, zero);
  }

  float dot = 0.0f;
#pragma unroll
  for (int turn = 0; turn < VECTORS; ++turn) {
#pragma unroll
    for (int e = 0; e < Team::kElements; ++e) {
      dot += warpwise::to_float(gradient[turn].at[e]) * warpwise::to_float(probability[turn].at[e]);
    }
  }
  dot = warpwise::team_reduce<warpwise::Sum, THREADS>(dot, of_warp);

#pragma unroll
  for (int turn = 0; turn < VECTORS; ++turn) {
    warpwise::Pack<T> result;
#pragma unroll
    for (int e = 0; e < Team::kElements; ++e) {
      const float difference = warpwise::to_float(gradient[turn].at[e]) - dot;
      result.at[e] = warpwise::from_float<T>(warpwise::to_float(probability[turn].at[e]) * difference);
    }
    Team::store(dx, columns, turn, result);
  }
}
