// Column-major matrices: lanes hold adjacent rows and stride over columns.
//
// The elements of a row are far apart, but the loads of adjacent lanes are contiguous. The other rows of threads of a
// block, and other blocks, compute other columns of the same rows. Sums of a block are reduced by shuffles and in
// shared memory. The block of the last part adds the sums of a few others; a second launch of the kernel adds those of
// many.

#include <warpwise/core/words.cuh>
#include <warpwise/core/partial_sums.cuh>
#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/reduce.cuh>

// a: (m, k), columns column_stride elements apart; x: (k,), or null for ones; y: (parts, m), or with a workspace (m,):
// a row has parts - 1 words of 8 bytes, zeros before and after. R is float for (parts, m) of several parts, else T.
// BYTES per load divide m and column_stride in bytes, and the addresses of a and y. Block: (width, THREADS / width),
// width a power of two; a lane loads BYTES of a column, VALUES columns at once. Grid: (cdiv(m * sizeof(T) / BYTES,
// width), parts); a part has `share` columns.
template <class T, class R, int BYTES, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS, (VALUES * BYTES > 128 ? 512 : 1024) / THREADS) matvec_columns(
    const T* a, const T* x, R* y, int* workspace, long long m, long long k, long long column_stride, long long share) {
  using Pack = warpwise::Pack<T, BYTES>;
  __shared__ float scratch[THREADS * Pack::size];
  const int width = blockDim.x, height = blockDim.y, line = threadIdx.y, thread = line * width + threadIdx.x;
  const long long first = static_cast<long long>(blockIdx.x) * width * Pack::size;
  const long long row = first + threadIdx.x * Pack::size, part = blockIdx.y;
  const long long end = (part + 1) * share, last = row >= m ? 0 : end < k ? end : k;
  long long column = part * share + line;
  const T* from = a + column * column_stride + row;
  const long long step = height * column_stride;
  float totals[Pack::size] = {};
  warpwise::wait_for_previous_kernel();
#pragma unroll 1  // unrolling a loop of unknown stride needs a division before the first load
  while (column < last) {
    warpwise::Words<T, BYTES> a_values[VALUES] = {};
    T x_values[VALUES];  // a conversion under the condition of its load would wait for it before the next loads
#pragma unroll
    for (int v = 0; v < VALUES; ++v) {
      x_values[v] = warpwise::from_float<T>(x ? 0.0f : 1.0f);
      if (column < last) {
        a_values[v] = warpwise::words_at<BYTES>(from);
        if (x) x_values[v] = x[column];
      }
      column += height;
      from += step;
    }
#pragma unroll
    for (int v = 0; v < VALUES; ++v) {
#pragma unroll
      for (int e = 0; e < Pack::size; ++e)
        totals[e] += warpwise::to_float(warpwise::elements<T>(a_values[v]).at[e]) * warpwise::to_float(x_values[v]);
    }
  }

  // Rows of threads in one warp are added by shuffles; `groups` sums of each row remain.
  const bool narrow = width < warpwise::kWarp;
#pragma unroll 1
  for (int distance = width; distance < warpwise::kWarp; distance *= 2) {
#pragma unroll
    for (int e = 0; e < Pack::size; ++e) totals[e] += __shfl_xor_sync(warpwise::kFullMask, totals[e], distance);
  }
  const int groups = narrow ? THREADS / warpwise::kWarp : height, others = gridDim.y - 1;
  const auto store = [&](long long of_row, float total) {
    auto* const words = reinterpret_cast<unsigned long long*>(workspace) + of_row;
    if (workspace && part < others) return warpwise::send_value(words + part * m, total);
    if (workspace) total += warpwise::take_sum(words, others, 0, 1, static_cast<int>(m));
    y[(workspace ? 0 : part * m) + of_row] = warpwise::from_float<R>(total);
  };
  if (groups == 1) {
    if constexpr (sizeof(R) == sizeof(T)) {
      if (!workspace) {
        warpwise::Pack<R, BYTES> pack;
#pragma unroll
        for (int e = 0; e < Pack::size; ++e) pack.at[e] = warpwise::from_float<R>(totals[e]);
        if (row < m) *warpwise::packs<BYTES>(y + part * m + row) = pack;
        return;
      }
    }
#pragma unroll
    for (int e = 0; e < Pack::size; ++e)
      if (row < m) store(row + e, totals[e]);
    return;
  }
  const int group = narrow ? thread / warpwise::kWarp : line;
  if (!narrow || thread % warpwise::kWarp < width) {
#pragma unroll
    for (int e = 0; e < Pack::size; ++e) scratch[(group * Pack::size + e) * width + threadIdx.x] = totals[e];
  }
  __syncthreads();
  for (int at = thread; at < width * Pack::size; at += THREADS) {
    if (first + at >= m) break;
    float total = 0.0f;
#pragma unroll 8
    for (int g = 0; g < groups; ++g) total += scratch[(g * Pack::size + at % Pack::size) * width + at / Pack::size];
    store(first + at, total);
  }
}
