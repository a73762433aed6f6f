// One block a row: neighbouring threads read neighbouring columns and coalesce; reductions go through shared memory.
//
// 32 threads now read one 128-byte line instead of 32 of them. The tree in shared memory costs log2(256) = 8 barriers
// for each of the two reductions.

#include <warpwise/core/numeric.cuh>

constexpr int kThreads = 256;

// x, y: (rows, columns), contiguous. Grid: rows blocks of kThreads.
template <class T>
__global__ void __launch_bounds__(kThreads) softmax_block_per_row(const T* x, T* y, int columns) {
  __shared__ float of_thread[kThreads];
  const int thread = threadIdx.x;
  x += static_cast<long long>(blockIdx.x) * columns;
  y += static_cast<long long>(blockIdx.x) * columns;

  float max = warpwise::minus_infinity();
  for (int c = thread; c < columns; c += kThreads) max = fmaxf(max, warpwise::to_float(x[c]));
  of_thread[thread] = max;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (thread < half) of_thread[thread] = fmaxf(of_thread[thread], of_thread[thread + half]);
    __syncthreads();
  }
  max = of_thread[0];
  __syncthreads();  // of_thread is used again

  float sum = 0.0f;
  for (int c = thread; c < columns; c += kThreads) sum += expf(warpwise::to_float(x[c]) - max);
  of_thread[thread] = sum;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (thread < half) of_thread[thread] += of_thread[thread + half];
    __syncthreads();
  }
  sum = of_thread[0];

  for (int c = thread; c < columns; c += kThreads) {
    y[c] = warpwise::from_float<T>(expf(warpwise::to_float(x[c]) - max) / sum);
  }
}
