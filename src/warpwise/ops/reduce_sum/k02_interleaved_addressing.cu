// A tree in shared memory: 256 elements become one before an atomic sees them, 256 times fewer atomics.
//
// Step s adds words s apart, in the threads whose number 2s divides. Up to s = 16 every warp still has such a thread,
// so all 8 warps run those steps while the number of working threads halves each time.

#include <warpwise/core/numeric.cuh>

constexpr int kThreads = 256;

// x: (rows, columns), contiguous; totals: (rows,), zero before. Grid: rows * parts blocks, parts = cdiv(columns,
// kThreads).
template <class T>
__global__ void __launch_bounds__(kThreads) sum_interleaved_addressing(const T* x, float* totals, long long columns,
                                                                       int parts) {
  __shared__ float of_thread[kThreads];
  const int thread = threadIdx.x;
  const long long row = blockIdx.x / parts;
  const long long column = static_cast<long long>(blockIdx.x % parts) * kThreads + thread;
  of_thread[thread] = column < columns ? warpwise::to_float(x[row * columns + column]) : 0.0f;
  __syncthreads();

  for (int step = 1; step < kThreads; step *= 2) {
    if (thread % (2 * step) == 0) of_thread[thread] += of_thread[thread + step];
    __syncthreads();
  }
  if (thread == 0) atomicAdd(totals + row, of_thread[0]);
}
