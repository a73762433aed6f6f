// Each thread adds many elements in a register before the tree: one tree and one atomic for thousands of elements.
//
// A resident grid walks over the row in steps of all its threads. The tree's 9 barriers, which cost more than the 256
// loads they follow, are paid once a block, and there are a few hundred blocks instead of a million.

#include <warpwise/core/numeric.cuh>

constexpr int kThreads = 256;

// x: (rows, columns), contiguous; totals: (rows,), zero before. Grid: rows * parts blocks; a row's parts share its
// columns.
template <class T>
__global__ void __launch_bounds__(kThreads) sum_add_during_load(const T* x, float* totals, long long columns,
                                                                int parts) {
  __shared__ float of_thread[kThreads];
  const int thread = threadIdx.x;
  const long long row = blockIdx.x / parts;
  const long long first = static_cast<long long>(blockIdx.x % parts) * kThreads + thread;
  const long long step = static_cast<long long>(parts) * kThreads;
  x += row * columns;

  float sum = 0.0f;
  for (long long column = first; column < columns; column += step) sum += warpwise::to_float(x[column]);
  of_thread[thread] = sum;
  __syncthreads();

  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (thread < half) of_thread[thread] += of_thread[thread + half];
    __syncthreads();
  }
  if (thread == 0) atomicAdd(totals + row, of_thread[0]);
}
