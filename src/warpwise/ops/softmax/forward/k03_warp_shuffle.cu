// Reductions by warp shuffles: registers instead of shared memory, and 2 barriers a reduction instead of 8.
//
// A shuffle hands a register to another lane without a barrier; only the 8 warps' results pass through shared memory.
// The row is still read three times, but a row of 8192 float32 (32 KB) comes from L1 or L2 the second and the third
// time.

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/reduce.cuh>

constexpr int kThreads = 256;

// x, y: (rows, columns), contiguous. Grid: rows blocks of kThreads.
template <class T>
__global__ void __launch_bounds__(kThreads) softmax_warp_shuffle(const T* x, T* y, int columns) {
  __shared__ float of_warp[warpwise::kWarp];
  x += static_cast<long long>(blockIdx.x) * columns;
  y += static_cast<long long>(blockIdx.x) * columns;

  float max = warpwise::minus_infinity();
  for (int c = threadIdx.x; c < columns; c += kThreads) max = fmaxf(max, warpwise::to_float(x[c]));
  max = warpwise::block_reduce<warpwise::Max, kThreads>(max, of_warp);

  float sum = 0.0f;
  for (int c = threadIdx.x; c < columns; c += kThreads) sum += expf(warpwise::to_float(x[c]) - max);
  sum = warpwise::block_reduce<warpwise::Sum, kThreads>(sum, of_warp);

  for (int c = threadIdx.x; c < columns; c += kThreads) {
    y[c] = warpwise::from_float<T>(expf(warpwise::to_float(x[c]) - max) / sum);
  }
}
