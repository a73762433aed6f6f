// Column-major matrices: lanes hold adjacent rows and stride over columns.
//
// The elements of a row are far apart, but the loads of adjacent lanes are contiguous. The other lines of threads of a
// block, and other blocks, compute other columns of the same rows. Sums of a block are reduced in shared memory; a
// second launch adds those of several blocks, in order.

#include <warpwise/core/pack.cuh>
#include <warpwise/core/partial_sums.cuh>
#include <warpwise/core/previous_kernel.cuh>

// a: (m, k), columns column_stride elements apart; x: (k,); y: (parts, m), where R is T if parts is 1, else float.
// BYTES per load divide m and column_stride in bytes, and the address of a. Block: (width, height), up to THREADS; a
// lane loads BYTES of a column, VALUES columns at once. Grid: (cdiv(m * sizeof(T) / BYTES, width), parts); a part has
// `share` columns.
template <class T, class R, int BYTES, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS) matvec_columns(const T* a, const T* x, R* y, long long m, long long k,
                                                          long long column_stride, long long share) {
  using Pack = warpwise::Pack<T, BYTES>;
  __shared__ float scratch[Pack::size][THREADS];
  const int width = blockDim.x, height = blockDim.y, line = threadIdx.y, thread = line * width + threadIdx.x;
  const long long row = (static_cast<long long>(blockIdx.x) * width + threadIdx.x) * Pack::size;
  const long long part = blockIdx.y;
  float totals[Pack::size] = {};
  warpwise::wait_for_previous_kernel();
  if (row < m) {
    const long long end = (part + 1) * share;
    const long long last = end < k ? end : k;
    long long column = part * share + line;
    const T* from = a + column * column_stride + row;
    const long long step = height * column_stride;
#pragma unroll 1  // unrolling a loop of unknown stride needs a division before the first load
    while (column < last) {
      Pack a_values[VALUES] = {};
      T x_values[VALUES] = {};
#pragma unroll
      for (int v = 0; v < VALUES; ++v) {
        if (column < last) {
          a_values[v] = *warpwise::packs<BYTES>(from);
          x_values[v] = x[column];
        }
        column += height;
        from += step;
      }
#pragma unroll
      for (int v = 0; v < VALUES; ++v) {
#pragma unroll
        for (int e = 0; e < Pack::size; ++e)
          totals[e] += warpwise::to_float(a_values[v].at[e]) * warpwise::to_float(x_values[v]);
      }
    }
  }
#pragma unroll
  for (int e = 0; e < Pack::size; ++e) scratch[e][thread] = totals[e];
  int half = 1;
  while (half < height) half *= 2;
  for (half /= 2; half > 0; half /= 2) {
    __syncthreads();
    if (line < half && line + half < height) {
#pragma unroll
      for (int e = 0; e < Pack::size; ++e) scratch[e][thread] += scratch[e][thread + half * width];
    }
  }
  if (line > 0 || row >= m) return;
#pragma unroll
  for (int e = 0; e < Pack::size; ++e) y[part * m + row + e] = warpwise::from_float<R>(scratch[e][thread]);
}
