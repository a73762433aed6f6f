// Each thread adds many elements in a register before the tree: one tree and one atomic for thousands of elements.
//
// The grid fits the GPU once and strides over the row. The 9 barriers of the tree, which cost more than the 256 loads
// before them, are executed once per block, and there are a few hundred blocks instead of a million.

#include <warpwise/core/numeric.cuh>

constexpr int kThreads = 256;

// x: (rows, columns), contiguous; totals: (rows,), zero-initialised. Grid: rows * parts blocks; `parts` blocks stride
// over a row.
template <class T>
__global__ void __launch_bounds__(kThreads) sum_add_during_load(const T* x, float* totals, long long columns,
                                                                int parts) {
  __shared__ float partials[kThreads];
  const int thread = threadIdx.x;
  const long long row = blockIdx.x / parts;
  const long long first = static_cast<long long>(blockIdx.x % parts) * kThreads + thread;
  const long long step = static_cast<long long>(parts) * kThreads;
  x += row * columns;

  float sum = 0.0f;
  for (long long column = first; column < columns; column += step) sum += warpwise::to_float(x[column]);
  partials[thread] = sum;
  __syncthreads();

  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (thread < half) partials[thread] += partials[thread + half];
    __syncthreads();
  }
  if (thread == 0) atomicAdd(totals + row, partials[0]);
}
