// Column-major matrices: lanes hold adjacent rows and stride over columns.
//
// The elements of a row are far apart, but the 16-byte loads of adjacent lanes are contiguous. The remaining lanes of a
// warp, the other warps and other blocks compute other columns of the same rows. Sums are reduced in shared memory; the
// last block to finish reduces those of several blocks, in order.

#include <warpwise/core/pack.cuh>
#include <warpwise/core/partial_sums.cuh>

constexpr int kThreads = 256;

// a: (m, k), columns column_stride elements apart; x: (k,); y: (m,). If splits > 1, partials: (splits, m), and
// semaphores: one per group of rows. BYTES per load: 16 if m and column_stride are multiples of 16 bytes and a is
// 16-byte aligned, else the size of an element. LANES adjacent lanes load one column, UNROLL columns at once;
// SINGLE_PASS: a thread has at most UNROLL columns. Grid: cdiv(m, LANES * BYTES / sizeof(T)) * splits blocks.
template <class T, int BYTES, int LANES, int UNROLL, bool SINGLE_PASS>
__global__ void __launch_bounds__(kThreads) matvec_columns(const T* a, const T* x, T* y, float* partials,
                                                           int* semaphores, long long m, long long k,
                                                           long long column_stride, int splits) {
  using Pack = warpwise::Pack<T, BYTES>;
  constexpr int kRows = LANES * Pack::size, kColumns = kThreads / LANES;
  __shared__ float scratch[kColumns * kRows];
  const int split = blockIdx.x % splits, group = blockIdx.x / splits, lane = threadIdx.x % LANES;
  const long long first = static_cast<long long>(group) * kRows, row = first + lane * Pack::size;
  const T* const from = a + (row < m ? row : 0);  // if a pack's first row exists, all of them do

  float totals[Pack::size] = {};
  const auto add = [&](const Pack& a_values, float x_values) {
#pragma unroll
    for (int e = 0; e < Pack::size; ++e) totals[e] += warpwise::to_float(a_values.at[e]) * x_values;
  };
  const long long step = static_cast<long long>(splits) * kColumns;
  long long i = static_cast<long long>(split) * kColumns + threadIdx.x / LANES;
  if constexpr (SINGLE_PASS) {
    Pack a_values[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
      if (i + u * step < k) a_values[u] = *warpwise::packs<BYTES>(from + (i + u * step) * column_stride);
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
      if (i + u * step < k) add(a_values[u], warpwise::to_float(x[i + u * step]));
    i = k;
  }
  for (; i + (UNROLL - 1) * step < k; i += UNROLL * step) {
    Pack a_values[UNROLL];
    float x_values[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      a_values[u] = *warpwise::packs<BYTES>(from + (i + u * step) * column_stride);
      x_values[u] = warpwise::to_float(x[i + u * step]);
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) add(a_values[u], x_values[u]);
  }
  for (; i < k; i += step) add(*warpwise::packs<BYTES>(from + i * column_stride), warpwise::to_float(x[i]));

#pragma unroll
  for (int e = 0; e < Pack::size; ++e) scratch[threadIdx.x / LANES * kRows + e * LANES + lane] = totals[e];
  __syncthreads();
  for (int at = threadIdx.x; at < kRows;
       at += kThreads) {  // row lane * size + e is at e * LANES + lane, without bank conflicts
    const long long to = first + at % LANES * Pack::size + at / LANES;
    float total = 0.0f;
#pragma unroll 8
    for (int c = 0; c < kColumns; ++c) total += scratch[c * kRows + at];
    if (to >= m) continue;
    if (splits == 1)
      y[to] = warpwise::from_float<T>(total);
    else
      partials[split * m + to] = total;
  }
  if (splits == 1 || !warpwise::is_last_block(semaphores + group, splits)) return;

  static_assert(kRows <= kThreads, "at most one row per thread");
  const float total = warpwise::reduce_partial_rows<kRows, kThreads>(partials, m, first, splits, scratch, threadIdx.x);
  if (threadIdx.x < kRows && first + threadIdx.x < m) y[first + threadIdx.x] = warpwise::from_float<T>(total);
}
