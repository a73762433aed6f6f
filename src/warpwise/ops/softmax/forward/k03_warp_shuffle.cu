// Reductions by warp shuffles: registers instead of shared memory, and 2 barriers per reduction instead of 9.
//
// A shuffle moves a register to another lane without a barrier; only the results of the 8 warps pass through shared
// memory. The row is still read three times, but a row of 8192 float32 (32 KB) hits in L1 or L2 at the second and
// third read.

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/reduce.cuh>

constexpr int kThreads = 256;

// x, y: (rows, columns), contiguous. Grid: rows blocks of kThreads.
template <class T>
__global__ void __launch_bounds__(kThreads) softmax_warp_shuffle(const T* x, T* y, int columns) {
  __shared__ float warp_values[warpwise::kWarp];
  x += static_cast<long long>(blockIdx.x) * columns;
  y += static_cast<long long>(blockIdx.x) * columns;

  float max = warpwise::minus_infinity();
  for (int c = threadIdx.x; c < columns; c += kThreads) max = fmaxf(max, warpwise::to_float(x[c]));
  max = warpwise::block_reduce<warpwise::Max, kThreads>(max, warp_values);

  float sum = 0.0f;
  for (int c = threadIdx.x; c < columns; c += kThreads) sum += expf(warpwise::to_float(x[c]) - max);
  sum = warpwise::block_reduce<warpwise::Sum, kThreads>(sum, warp_values);

  for (int c = threadIdx.x; c < columns; c += kThreads) {
    y[c] = warpwise::from_float<T>(expf(warpwise::to_float(x[c]) - max) / sum);
  }
}
