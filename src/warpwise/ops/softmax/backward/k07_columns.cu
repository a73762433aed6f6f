// For a dimension other than the last, without copies: lanes run along adjacent columns, and threads split a column.
//
// A thread loads VALUES elements of both inputs at once; a column with at most VALUES elements per thread is read once.
// If columns are few and long, several blocks split a column: one launch writes the sum of dy * y of each part, and a
// second one adds these sums and computes the result.

#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/reduce.cuh>

// dy, y, dx: (columns / inner, length, inner), contiguous. Column c begins at element (c / inner) * length * inner + c
// % inner; its elements are `inner` apart. Block: (width, height), up to THREADS. Grid: (cdiv(columns, width), parts);
// a part has `share` elements of each column.
template <class T, int THREADS, int VALUES>
struct Columns {
  int width, height, line, first, last;
  long long column, start, inner;
  float gradient[VALUES], probability[VALUES];

  __device__ Columns(long long columns, long long inner, int length, int share)
      : width(blockDim.x), height(blockDim.y), line(threadIdx.y), inner(inner) {
    column = static_cast<long long>(blockIdx.x) * width + threadIdx.x;
    start = column;
    if (inner < columns) start += column / inner * (length - 1) * inner;
    last = column < columns ? min(length, (static_cast<int>(blockIdx.y) + 1) * share) : 0;
    first = static_cast<int>(blockIdx.y) * share + line;
  }

  __device__ int batch() const { return height * VALUES; }

  __device__ void load(const T* dy, const T* y, int row) {
    long long at = start + row * inner;
    const long long step = height * inner;
#pragma unroll
    for (int v = 0; v < VALUES; ++v, row += height, at += step) {
      gradient[v] = row < last ? warpwise::to_float(dy[at]) : 0.0f;
      probability[v] = row < last ? warpwise::to_float(y[at]) : 0.0f;
    }
  }

  __device__ float read(const T* dy, const T* y) {
    float dot = 0.0f;
#pragma unroll 1  // unrolling a loop of unknown stride needs a division before the first load
    for (int row = first; row < last; row += batch()) {
      load(dy, y, row);
#pragma unroll
      for (int v = 0; v < VALUES; ++v) dot += gradient[v] * probability[v];
    }
    return dot;
  }

  // The sum over the threads of each column; all threads of the block call this once.
  __device__ float combined(float dot) const {
    __shared__ float of_threads[THREADS];
    const int thread = line * width + threadIdx.x;
    of_threads[thread] = dot;
    int half = 1;
    while (half < height) half *= 2;
    for (half /= 2; half > 0; half /= 2) {
      __syncthreads();
      if (line < half && line + half < height) of_threads[thread] += of_threads[thread + half * width];
    }
    __syncthreads();
    return of_threads[threadIdx.x];
  }

  __device__ void store(T* dx, int row, float dot) const {
    long long at = start + row * inner;
    const long long step = height * inner;
#pragma unroll
    for (int v = 0; v < VALUES; ++v, row += height, at += step) {
      if (row < last) dx[at] = warpwise::from_float<T>(probability[v] * (gradient[v] - dot));
    }
  }

  __device__ void write(const T* dy, const T* y, T* dx, float dot) {
#pragma unroll 1
    for (int row = first; row < last; row += batch()) {
      load(dy, y, row);
      store(dx, row, dot);
    }
  }
};

// One part.
template <class T, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS) softmax_backward_columns(const T* dy, const T* y, T* dx, long long columns,
                                                                    long long inner, int length) {
  Columns<T, THREADS, VALUES> here(columns, inner, length, length);
  warpwise::wait_for_previous_kernel();
  const float dot = here.combined(here.read(dy, y));
  if (length <= here.batch()) {
    here.store(dx, here.first, dot);
  } else {
    here.write(dy, y, dx, dot);
  }
}

// partial: (parts, columns).
template <class T, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS) softmax_backward_sums(const T* dy, const T* y, float* partial,
                                                                 long long columns, long long inner, int length,
                                                                 int share) {
  Columns<T, THREADS, VALUES> here(columns, inner, length, share);
  warpwise::wait_for_previous_kernel();
  const float dot = here.combined(here.read(dy, y));
  if (here.line == 0 && here.column < columns) partial[blockIdx.y * columns + here.column] = dot;
}

template <class T, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS) softmax_backward_from_sums(const T* dy, const T* y, const float* partial,
                                                                      T* dx, long long columns, long long inner,
                                                                      int length, int share) {
  Columns<T, THREADS, VALUES> here(columns, inner, length, share);
  warpwise::wait_for_previous_kernel();
  float dot = 0.0f;
  if (here.column < columns) {
#pragma unroll 4
    for (int part = here.line; part < gridDim.y; part += here.height) dot += partial[part * columns + here.column];
  }
  here.write(dy, y, dx, here.combined(dot));
}
