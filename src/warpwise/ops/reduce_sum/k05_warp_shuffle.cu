// The tree by warp shuffles: registers instead of shared memory, two barriers instead of nine.

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/reduce.cuh>

constexpr int kThreads = 256;

// x: (rows, columns), contiguous; totals: (rows,), zero-initialised. Grid: rows * parts blocks; `parts` blocks stride
// over a row.
template <class T>
__global__ void __launch_bounds__(kThreads) sum_warp_shuffle(const T* x, float* totals, long long columns, int parts) {
  __shared__ float warp_values[warpwise::kWarp];
  const long long row = blockIdx.x / parts;
  const long long first = static_cast<long long>(blockIdx.x % parts) * kThreads + threadIdx.x;
  const long long step = static_cast<long long>(parts) * kThreads;
  x += row * columns;

  float sum = 0.0f;
  for (long long column = first; column < columns; column += step) sum += warpwise::to_float(x[column]);
  sum = warpwise::block_reduce<warpwise::Sum, kThreads>(sum, warp_values);
  if (threadIdx.x == 0) atomicAdd(totals + row, sum);
}
