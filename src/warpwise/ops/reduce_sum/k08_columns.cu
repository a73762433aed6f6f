// For a dimension other than the last, without a copy: lanes run along adjacent columns, and threads split a column.
//
// A block of (width, height) threads sums `width` columns, and a thread has VALUES loads in flight. If columns are few
// and long, several blocks compute parts of a column, and a second launch of the kernel adds the sums of the parts. The
// order of the additions is fixed.

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/previous_kernel.cuh>

// x: (columns / inner, length, inner), contiguous; sums: (parts, columns). Column c begins at element
// (c / inner) * length * inner + c % inner. Block: (width, height), up to THREADS. Grid: (cdiv(columns, width), parts);
// a part has `share` elements of each column.
template <class T, class R, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS) sum_columns(const T* x, R* sums, long long columns, long long inner,
                                                       int length, int share) {
  __shared__ float of_threads[THREADS];
  const int width = blockDim.x, height = blockDim.y, line = threadIdx.y, thread = line * width + threadIdx.x;
  const long long column = static_cast<long long>(blockIdx.x) * width + threadIdx.x;
  const long long part = blockIdx.y;
  float sum = 0.0f;
  warpwise::wait_for_previous_kernel();
  if (column < columns) {
    const int last = static_cast<int>(min(static_cast<long long>(length), (part + 1) * share));
    int row = static_cast<int>(part * share) + line;
    const T* from = x + row * inner + column;
    if (inner < columns) from += column / inner * (length - 1) * inner;
    const long long step = height * inner;
#pragma unroll 1  // unrolling a loop of unknown stride needs a division before the first load
    while (row < last) {
      float values[VALUES];
#pragma unroll
      for (int v = 0; v < VALUES; ++v) {
        values[v] = row < last ? warpwise::to_float(*from) : 0.0f;
        row += height;
        from += step;
      }
#pragma unroll
      for (int v = 0; v < VALUES; ++v) sum += values[v];
    }
  }
  of_threads[thread] = sum;
  int half = 1;
  while (half < height) half *= 2;
  for (half /= 2; half > 0; half /= 2) {
    __syncthreads();
    if (line < half && line + half < height) of_threads[thread] += of_threads[thread + half * width];
  }
  if (line == 0 && column < columns) sums[part * columns + column] = warpwise::from_float<R>(of_threads[thread]);
}
