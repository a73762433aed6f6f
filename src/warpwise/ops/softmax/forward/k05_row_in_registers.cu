// The row in registers: 16-byte loads, and memory is read once and written once, the least that softmax can do.
//
// THREADS threads hold a row of up to THREADS * VECTORS * (16 / sizeof(T)) elements as float32 between load and store:
// 32 registers a thread carry 32768 columns with 1024 threads. Short rows take a warp or
// a part of one each, and need no barrier at all.

#include <warpwise/core/reduce.cuh>
#include <warpwise/core/row_tile.cuh>

// x, y: (rows, columns), contiguous; columns <= THREADS * VECTORS * Pack<T>::size.
// Block: (THREADS, 1), or (THREADS, 128 / THREADS) up to a warp. Grid: cdiv(rows, rows in a block).
template <class T, int THREADS, int VECTORS, bool ALIGNED, int BLOCK = warpwise::block_of_teams(THREADS)>
__global__ void __launch_bounds__(BLOCK) softmax_row_in_registers(const T* x, T* y, int rows, int columns) {
  using Team = warpwise::RowTile<T, THREADS, ALIGNED>;
  static_assert(VECTORS * Team::kElements <= 32, "more than 32 registers for the row spill with 1024 threads of 64");
  __shared__ float of_warp[warpwise::kWarp];
  const long long row = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= rows) columns = 0;  // a team past the end stays for its warp's shuffles, and touches nothing
  x += row * columns;
  y += row * columns;

  float values[VECTORS][Team::kElements];
  float max = warpwise::minus_infinity();
#pragma unroll
  for (int turn = 0; turn < VECTORS; ++turn) {
    const auto loaded = Team::load(x, columns, turn, warpwise::from_float<T>(warpwise::minus_infinity()));
#pragma unroll
    for (int e = 0; e < Team::kElements; ++e) {
      values[turn][e] = warpwise::to_float(loaded.at[e]);
      max = fmaxf(max, values[turn][e]);
    }
  }
  max = warpwise::team_reduce<warpwise::Max, THREADS>(max, of_warp);

  float sum = 0.0f;
#pragma unroll
  for (int turn = 0; turn < VECTORS; ++turn) {
#pragma unroll
    for (int e = 0; e < Team::kElements; ++e) {
      values[turn][e] = warpwise::exponential<T>(values[turn][e] - max);
      sum += values[turn][e];
    }
  }
  const float scale = 1.0f / warpwise::team_reduce<warpwise::Sum, THREADS>(sum, of_warp);

#pragma unroll
  for (int turn = 0; turn < VECTORS; ++turn) {
    warpwise::Pack<T> result;
#pragma unroll
    for (int e = 0; e < Team::kElements; ++e) result.at[e] = warpwise::from_float<T>(values[turn][e] * scale);
    Team::store(y, columns, turn, result);
  }
}
