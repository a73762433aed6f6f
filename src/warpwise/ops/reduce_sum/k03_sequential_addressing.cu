// The same tree, halved from the top: the active threads are adjacent, so whole warps become idle, without divergence.
//
// A step of half h keeps h / 32 warps busy: 4, 2, 1, 1, 1, 1, 1, 1, where the interleaved tree kept 8, 8, 8, 8, 8, 4,
// 2, 1. The condition t < h is a comparison where t % (2 * s) was a remainder.

#include <warpwise/core/numeric.cuh>

constexpr int kThreads = 256;

// x: (rows, columns), contiguous; totals: (rows,), zero-initialised. Grid: rows * parts blocks, parts = cdiv(columns,
// kThreads).
template <class T>
__global__ void __launch_bounds__(kThreads) sum_sequential_addressing(const T* x, float* totals, long long columns,
                                                                      int parts) {
  __shared__ float partials[kThreads];
  const int thread = threadIdx.x;
  const long long row = blockIdx.x / parts;
  const long long column = static_cast<long long>(blockIdx.x % parts) * kThreads + thread;
  partials[thread] = column < columns ? warpwise::to_float(x[row * columns + column]) : 0.0f;
  __syncthreads();

  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (thread < half) partials[thread] += partials[thread + half];
    __syncthreads();
  }
  if (thread == 0) atomicAdd(totals + row, partials[0]);
}
