// A tree in shared memory: a block reduces 256 elements to one before its atomic, so there are 256 times fewer
// atomics.
//
// Step s adds words s apart, in the threads whose index is a multiple of 2 s. Up to s = 16 every warp has such a
// thread, so all 8 warps execute those steps while the number of active threads halves each time.

#include <warpwise/core/numeric.cuh>

constexpr int kThreads = 256;

// x: (rows, columns), contiguous; totals: (rows,), zero-initialised. Grid: rows * parts blocks, parts = cdiv(columns,
// kThreads).
template <class T>
__global__ void __launch_bounds__(kThreads) sum_interleaved_addressing(const T* x, float* totals, long long columns,
                                                                       int parts) {
  __shared__ float partials[kThreads];
  const int thread = threadIdx.x;
  const long long row = blockIdx.x / parts;
  const long long column = static_cast<long long>(blockIdx.x % parts) * kThreads + thread;
  partials[thread] = column < columns ? warpwise::to_float(x[row * columns + column]) : 0.0f;
  __syncthreads();

  for (int step = 1; step < kThreads; step *= 2) {
    if (thread % (2 * step) == 0) partials[thread] += partials[thread + step];
    __syncthreads();
  }
  if (thread == 0) atomicAdd(totals + row, partials[0]);
}
