// Another dimension than the last, without a copy: lanes run along neighbouring columns, and threads split a column.
//
// A block sums `width` columns with THREADS / width threads each, and a thread has VALUES loads in flight. Where
// columns are few and long, parts of them are blocks of their own, and a second launch adds the sums of the parts,
// which are columns again. The order of the additions is fixed.

#include <warpwise/core/numeric.cuh>

// x: (columns / inner, length, inner), contiguous; sums: (parts, columns). Column c begins at element
// (c / inner) * length * inner + c % inner. Grid: (cdiv(columns, width), parts); a part has `share` elements of each
// column.
template <class T, class R, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS) sum_columns(const T* x, R* sums, long long columns, long long inner,
                                                       int length, int width, int share) {
  __shared__ float of_threads[THREADS];
  const int height = THREADS / width, lane = threadIdx.x % width, line = threadIdx.x / width;
  const long long column = static_cast<long long>(blockIdx.x) * width + lane;
  const long long part = blockIdx.y;
  float sum = 0.0f;
  if (line < height && column < columns) {
    const int last = static_cast<int>(min(static_cast<long long>(length), (part + 1) * share));
    x += column / inner * length * inner + column % inner;
    for (int row = static_cast<int>(part * share) + line; row < last; row += height * VALUES) {
      float values[VALUES];
#pragma unroll
      for (int v = 0; v < VALUES; ++v) {
        const int at = row + v * height;
        values[v] = at < last ? warpwise::to_float(x[at * inner]) : 0.0f;
      }
#pragma unroll
      for (int v = 0; v < VALUES; ++v) sum += values[v];
    }
  }
  of_threads[threadIdx.x] = sum;
  int half = 1;
  while (half < height) half *= 2;
  for (half /= 2; half > 0; half /= 2) {
    __syncthreads();
    if (line < half && line + half < height) of_threads[threadIdx.x] += of_threads[threadIdx.x + half * width];
  }
  if (line == 0 && column < columns) sums[part * columns + column] = warpwise::from_float<R>(of_threads[lane]);
}
