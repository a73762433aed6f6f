// For a dimension other than the last, without copies: lanes run along adjacent columns, and threads split a column.
//
// A thread loads VALUES packs of W columns at once; a column with at most VALUES elements per thread is read once.
// Longer columns are read twice, in parts if there are too few blocks: one launch writes the statistics of each part,
// and a second one combines them and computes the result.

#include <warpwise/core/previous_kernel.cuh>

#include "columns.cuh"

// A column in one batch. A thread may hold more than 16 elements if it has its columns alone: no barrier then.
template <class T, int W, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS, blocks_of_sm(THREADS, VALUES, VALUES* W)) softmax_columns(const T* x, T* y,
                                                                                                     long long columns,
                                                                                                     long long inner,
                                                                                                     int length) {
  Columns<T, W, THREADS, VALUES> here(columns, inner, length, length);
  warpwise::wait_for_previous_kernel();
  Statistics own[W], all[W];
  here.read_batch(x, own);
#pragma unroll
  for (int w = 0; w < W; ++w) all[w] = own[w];
  here.template combine<MaxAndSumOf<T>>(all);
  float scale[W];
#pragma unroll
  for (int w = 0; w < W; ++w) scale[w] = warpwise::exponential<T>(own[w].max - all[w].max) / all[w].sum;
  here.store(y, here.first, scale);
}

// partial: (parts, columns, 2), maximum and sum.
template <class T, int W, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) softmax_statistics(const T* x, float* partial,
                                                                              long long columns, long long inner,
                                                                              int length, int share) {
  Columns<T, W, THREADS, VALUES> here(columns, inner, length, share);
  warpwise::wait_for_previous_kernel();
  Statistics all[W];
  here.read(x, all);
  here.template combine<MaxAndSumOf<T>>(all);
  if (here.line != 0 || here.column >= columns) return;
  auto* const to = reinterpret_cast<Statistics*>(partial) + blockIdx.y * columns + here.column;
#pragma unroll
  for (int w = 0; w < W; ++w) to[w] = all[w];
}

template <class T, int W, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) softmax_from_statistics(const T* x, const float* partial,
                                                                                   T* y, long long columns,
                                                                                   long long inner, int length,
                                                                                   int share) {
  Columns<T, W, THREADS, VALUES> here(columns, inner, length, share);
  warpwise::wait_for_previous_kernel();
  Statistics all[W];
  typename Columns<T, W, THREADS, VALUES>::Word words[VALUES];
  if (here.last > here.first) here.load(x, here.last_batch(), words);  // in flight beside the statistics
  here.template combine_parts<MaxAndSumOf<T>>(reinterpret_cast<const Statistics*>(partial), columns, all);
  here.write(x, y, all, words);
}
