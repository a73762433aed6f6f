// One block per row: adjacent threads read adjacent columns, which coalesces; reductions go through shared memory.
//
// The 32 lanes of a warp read one 128-byte line instead of 32 lines. Each of the two reductions takes 9 barriers: one
// before the tree in shared memory, and one after each of its log2(256) = 8 steps.

#include <warpwise/core/numeric.cuh>

constexpr int kThreads = 256;

// x, y: (rows, columns), contiguous. Grid: rows blocks of kThreads.
template <class T>
__global__ void __launch_bounds__(kThreads) softmax_block_per_row(const T* x, T* y, int columns) {
  __shared__ float partials[kThreads];
  const int thread = threadIdx.x;
  x += static_cast<long long>(blockIdx.x) * columns;
  y += static_cast<long long>(blockIdx.x) * columns;

  float max = warpwise::minus_infinity();
  for (int c = thread; c < columns; c += kThreads) max = fmaxf(max, warpwise::to_float(x[c]));
  partials[thread] = max;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (thread < half) partials[thread] = fmaxf(partials[thread], partials[thread + half]);
    __syncthreads();
  }
  max = partials[0];
  __syncthreads();  // partials is overwritten below

  float sum = 0.0f;
  for (int c = thread; c < columns; c += kThreads) sum += expf(warpwise::to_float(x[c]) - max);
  partials[thread] = sum;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (thread < half) partials[thread] += partials[thread + half];
    __syncthreads();
  }
  sum = partials[0];

  for (int c = thread; c < columns; c += kThreads) {
    y[c] = warpwise::from_float<T>(expf(warpwise::to_float(x[c]) - max) / sum);
  }
}
