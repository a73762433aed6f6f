// For a dimension other than the last, without copies: lanes run along adjacent columns, and threads split a column.
//
// A thread loads VALUES packs of W columns of both inputs at once; a column with at most VALUES elements per thread is
// read once. Longer columns are read twice. If there are too few blocks, several split a column: one launch writes the
// sum of dy * y of each part, and a second one adds these sums and computes the result.

#include <warpwise/core/previous_kernel.cuh>

#include "columns.cuh"

// One part.
template <class T, int W, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS, blocks_of_sm(THREADS, VALUES, 2 * VALUES)) softmax_backward_columns(
    const T* dy, const T* y, T* dx, long long columns, long long inner, int length) {
  Columns<T, W, THREADS, VALUES> here(columns, inner, length, length);
  warpwise::wait_for_previous_kernel();
  float dot[W];
  here.read(dy, y, dot);
  here.template combine<Sums>(dot);
  if (length <= here.batch()) {
    here.store(dx, here.first, dot);
  } else {
    if (here.last > here.first) here.load(dy, y, here.last_batch());
    here.write(dy, y, dx, dot);
  }
}

// partial: (parts, columns).
template <class T, int W, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) softmax_backward_sums(const T* dy, const T* y,
                                                                                 float* partial, long long columns,
                                                                                 long long inner, int length,
                                                                                 int share) {
  Columns<T, W, THREADS, VALUES> here(columns, inner, length, share);
  warpwise::wait_for_previous_kernel();
  float dot[W];
  here.read(dy, y, dot);
  here.template combine<Sums>(dot);
  if (here.line != 0 || here.column >= columns) return;
#pragma unroll
  for (int w = 0; w < W; ++w) partial[blockIdx.y * columns + here.column + w] = dot[w];
}

template <class T, int W, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) softmax_backward_from_sums(
    const T* dy, const T* y, const float* partial, T* dx, long long columns, long long inner, int length, int share) {
  Columns<T, W, THREADS, VALUES> here(columns, inner, length, share);
  warpwise::wait_for_previous_kernel();
  float dot[W];
  if (here.last > here.first) here.load(dy, y, here.last_batch());  // in flight beside the sums
  here.template combine_parts<Sums>(partial, columns, dot);
  here.write(dy, y, dx, dot);
}
