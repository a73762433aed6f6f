// For a dimension other than the last, without copies: lanes run along adjacent columns, and threads split a column.
//
// A block of (width, height) threads computes `width` columns. A thread loads VALUES elements at once; a column with at
// most VALUES elements per thread is read once. If columns are few and long, several blocks split a column: one launch
// writes the statistics of each part, and a second one combines them and computes the result.

#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/reduce.cuh>

using Statistics = warpwise::MaxAndSum;

// x: (columns / inner, length, inner), contiguous. Column c begins at element (c / inner) * length * inner + c % inner;
// its elements are `inner` apart. Block: (width, height), up to THREADS. Grid: (cdiv(columns, width), parts); a part
// has `share` elements of each column.
template <class T, int THREADS, int VALUES>
struct Columns {
  int width, height, line, first, last;
  long long column, start, inner;
  float values[VALUES];

  __device__ Columns(long long columns, long long inner, int length, int share)
      : width(blockDim.x), height(blockDim.y), line(threadIdx.y), inner(inner) {
    column = static_cast<long long>(blockIdx.x) * width + threadIdx.x;
    start = column;
    if (inner < columns) start += column / inner * (length - 1) * inner;
    last = column < columns ? min(length, (static_cast<int>(blockIdx.y) + 1) * share) : 0;
    first = static_cast<int>(blockIdx.y) * share + line;
  }

  __device__ int batch() const { return height * VALUES; }

  __device__ void load(const T* x, int row) {
    const T* from = x + start + row * inner;
    const long long step = height * inner;
#pragma unroll
    for (int v = 0; v < VALUES; ++v, row += height, from += step) {
      values[v] = row < last ? warpwise::to_float(*from) : warpwise::minus_infinity();
    }
  }

  // The statistics of this thread's elements. `values` are then e^(x - max) of its last batch.
  __device__ Statistics::Value read(const T* x) {
    Statistics::Value own = Statistics::identity();
#pragma unroll 1  // unrolling a loop of unknown stride needs a division before the first load
    for (int row = first; row < last; row += batch()) {
      load(x, row);
      float max = own.max;
#pragma unroll
      for (int v = 0; v < VALUES; ++v) max = fmaxf(max, values[v]);
      own = {max, Statistics::rescaled(own, max)};
      const float base = max == warpwise::minus_infinity() ? 0.0f : max;  // e^(-inf - -inf) is NaN
#pragma unroll
      for (int v = 0; v < VALUES; ++v) {
        values[v] = warpwise::exponential<T>(values[v] - base);
        own.sum += values[v];
      }
    }
    return own;
  }

  // Combines the statistics of the threads of each column; all threads of the block call this once.
  __device__ Statistics::Value combined(Statistics::Value own) const {
    __shared__ Statistics::Value of_threads[THREADS];
    const int thread = line * width + threadIdx.x;
    of_threads[thread] = own;
    int half = 1;
    while (half < height) half *= 2;
    for (half /= 2; half > 0; half /= 2) {
      __syncthreads();
      if (line < half && line + half < height) {
        of_threads[thread] = Statistics::combine(of_threads[thread], of_threads[thread + half * width]);
      }
    }
    __syncthreads();
    return of_threads[threadIdx.x];
  }

  __device__ void store(T* y, int row, float scale) const {
    T* to = y + start + row * inner;
    const long long step = height * inner;
#pragma unroll
    for (int v = 0; v < VALUES; ++v, row += height, to += step) {
      if (row < last) *to = warpwise::from_float<T>(values[v] * scale);
    }
  }

  __device__ void write(const T* x, T* y, Statistics::Value all) {
#pragma unroll 1
    for (int row = first; row < last; row += batch()) {
      load(x, row);
#pragma unroll
      for (int v = 0; v < VALUES; ++v) values[v] = warpwise::exponential<T>(values[v] - all.max);
      store(y, row, 1.0f / all.sum);
    }
  }
};

// One part.
template <class T, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS) softmax_columns(const T* x, T* y, long long columns, long long inner,
                                                           int length) {
  Columns<T, THREADS, VALUES> here(columns, inner, length, length);
  warpwise::wait_for_previous_kernel();
  const Statistics::Value own = here.read(x), all = here.combined(own);
  if (length <= here.batch()) {
    here.store(y, here.first, expf(own.max - all.max) / all.sum);
  } else {
    here.write(x, y, all);
  }
}

// partial: (parts, columns, 2), maximum and sum.
template <class T, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS) softmax_statistics(const T* x, float* partial, long long columns,
                                                              long long inner, int length, int share) {
  Columns<T, THREADS, VALUES> here(columns, inner, length, share);
  warpwise::wait_for_previous_kernel();
  const Statistics::Value all = here.combined(here.read(x));
  if (here.line == 0 && here.column < columns) {
    float* const to = partial + (blockIdx.y * columns + here.column) * 2;
    to[0] = all.max;
    to[1] = all.sum;
  }
}

template <class T, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS) softmax_from_statistics(const T* x, const float* partial, T* y,
                                                                   long long columns, long long inner, int length,
                                                                   int share) {
  Columns<T, THREADS, VALUES> here(columns, inner, length, share);
  warpwise::wait_for_previous_kernel();
  Statistics::Value own = Statistics::identity();
  if (here.column < columns) {
#pragma unroll 4
    for (int part = here.line; part < gridDim.y; part += here.height) {
      const float* const from = partial + (part * columns + here.column) * 2;
      own = Statistics::combine(own, {from[0], from[1]});
    }
  }
  here.write(x, y, here.combined(own));
}
