// 16-byte loads, and partial sums that a second launch adds in a fixed order: at DRAM bandwidth, and deterministic.
//
// A load of 16 bytes instead of 4 keeps the same bytes in flight with a quarter of the instructions. Without atomics
// the result does not depend on the order of the blocks. A row that one block sums needs no second launch; a warp or a
// part of one sums a short row.

#include <warpwise/core/previous_kernel.cuh>

#include "row_sum.cuh"

// x: (rows, columns), contiguous; sums: (rows, parts). Block: (THREADS, 1), or with parts = 1 (THREADS, 128 / THREADS).
// Grid: (cdiv(rows, rows in a block), parts); `parts` blocks stride over a row.
//
// The launch bounds allow 64 registers per thread, with 1024 threads per SM. Without them the compiler uses 32, and
// only half a batch is in flight.
template <class T, class R, int THREADS, int BATCH = 4, int BLOCK = warpwise::block_of_teams(THREADS)>
__global__ void __launch_bounds__(BLOCK, 1024 / BLOCK) sum_two_passes(const T* x, R* sums, long long rows,
                                                                      long long columns) {
  __shared__ float warp_values[warpwise::kWarp];
  const long long row = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= rows) columns = 0;  // threads past the last row take part in their warp's shuffles
  const int part = blockIdx.y, parts = gridDim.y;
  warpwise::wait_for_previous_kernel();
  float sum = sum_of_thread<T, THREADS, BATCH>(x + row * columns, columns, part, parts);
  sum = warpwise::team_reduce<warpwise::Sum, THREADS>(sum, warp_values);
  if (threadIdx.x == 0 && row < rows) sums[row * parts + part] = warpwise::from_float<R>(sum);
}
