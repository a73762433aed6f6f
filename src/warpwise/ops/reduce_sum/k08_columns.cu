// For a dimension other than the last, without a copy: lanes run along adjacent columns, and threads split a column.
//
// A block of (width, height) threads sums `width` columns, and a thread has VALUES loads in flight. If columns are few
// and long, several blocks compute parts of a column. The block of the last part adds the sums of a few parts, which it
// gets as in k09; a second launch of the kernel adds those of many. The order of the additions is fixed.

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/partial_sums.cuh>
#include <warpwise/core/previous_kernel.cuh>

// x: (columns / inner, length, inner), contiguous; sums: (parts, columns), or (columns,) with a workspace of parts - 1
// words of 8 bytes for each column, zeros before and after. Column c begins at element
// (c / inner) * length * inner + c % inner. Block: (width, height), up to THREADS. Grid: (cdiv(columns, width), parts);
// a part has `share` elements of each column. Index holds (length + height) * columns.
template <class T, class R, class Index, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS) sum_columns(const T* x, R* sums, int* workspace, Index columns, Index inner,
                                                       int length, int share) {
  __shared__ float of_threads[THREADS];
  const int width = blockDim.x, height = blockDim.y, line = threadIdx.y, thread = line * width + threadIdx.x;
  const Index column = static_cast<Index>(blockIdx.x) * width + threadIdx.x;
  const int part = blockIdx.y, others = gridDim.y - 1;
  auto* const words = reinterpret_cast<unsigned long long*>(workspace) + column;
  float sum = 0.0f;
  warpwise::wait_for_previous_kernel();
  if (column < columns) {
    const int last = part == others ? length : (part + 1) * share;
    int row = part * share + line;
    const T* from = x + row * inner + column;
    if (inner < columns) from += column / inner * (length - 1) * inner;
    const Index step = height * inner;
#pragma unroll 1  // unrolling a loop of unknown stride needs a division before the first load
    while (row < last) {
      T values[VALUES];  // a conversion under the condition of its load would wait for it before the next loads
#pragma unroll
      for (int v = 0; v < VALUES; ++v) {
        values[v] = warpwise::from_float<T>(0.0f);
        if (row < last) values[v] = *from;
        row += height;
        from += step;
      }
#pragma unroll
      for (int v = 0; v < VALUES; ++v) sum += warpwise::to_float(values[v]);
    }
    if (workspace && part == others) sum += warpwise::take_sum(words, others, line, height, static_cast<int>(columns));
  }
  // The sums of up to eight lines in one step, of more in two steps of about the square root of their number.
  int groups = 1;
  while (height > 8 && groups * groups < height) groups *= 2;
  of_threads[thread] = sum;
  for (int from = height, to = groups; from > 1; from = to, to = 1) {
    __syncthreads();
    if (line < to) {
      for (int i = line + to; i < from; i += to) sum += of_threads[i * width + threadIdx.x];
      of_threads[thread] = sum;
    }
  }
  if (line > 0 || column >= columns) return;
  if (workspace && part < others)
    warpwise::send_value(words + part * columns, sum);
  else
    sums[(workspace ? 0 : part) * columns + column] = warpwise::from_float<R>(sum);
}
