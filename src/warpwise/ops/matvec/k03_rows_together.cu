// Wide loads with many in flight per thread: several rows per team of threads share x, and the loop is unrolled.
//
// To use the bandwidth of DRAM, bandwidth times latency must be in flight, about 40 KB per SM. If the blocks of all
// rows do not fill the GPU, several blocks split a row. If rows are few, the block of the last split adds the sums of
// the others; if they are many, a second launch adds the sums.

#include <warpwise/core/words.cuh>
#include <warpwise/core/previous_kernel.cuh>

#include "row_totals.cuh"

// a: (m, k), rows row_stride elements apart; x: (k,); y: (splits, m), or with a workspace (m,): see store_totals. R is
// float for (splits, m) of several splits, else T. BYTES per load: 16 if the rows of a and x are 16-byte aligned, else
// the largest power of two that divides their addresses. THREADS compute ROWS rows. Block: (THREADS, teams), with teams
// = 1 unless THREADS <= 32. Grid: (cdiv(m, teams * ROWS), splits).
template <class T, class R, int BYTES, int THREADS, int ROWS, int UNROLL>
__global__ void __launch_bounds__(THREADS < 128 ? 128 : THREADS) matvec_rows_together(const T* a, const T* x, R* y,
                                                                                      int* workspace, long long m,
                                                                                      long long k,
                                                                                      long long row_stride) {
  using Pack = warpwise::Pack<T, BYTES>;
  using Words = warpwise::Words<T, BYTES>;
  const int split = blockIdx.y, splits = gridDim.y;
  const long long first = (static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y) * ROWS;

  const T* rows[ROWS];  // rows past the last one are clamped to it
#pragma unroll
  for (int r = 0; r < ROWS; ++r) rows[r] = a + (first + r < m ? first + r : m - 1) * row_stride;
  float totals[ROWS] = {};
  // The elements after the last pack. Those of one row are loaded before the packs, so that no load follows another.
  constexpr bool kAhead = ROWS == 1 && THREADS >= Pack::size;
  const long long packs = k / Pack::size, step = static_cast<long long>(splits) * THREADS;
  const long long rest = split == 0 ? packs * Pack::size + threadIdx.x : k;
  warpwise::wait_for_previous_kernel();
  T a_rest = warpwise::from_float<T>(0.0f), x_rest = a_rest;
  if (Pack::size > 1 && kAhead && rest < k) a_rest = rows[0][rest], x_rest = x[rest];

  // All loads of a batch are in flight at once, also in the last batch; a loop over single packs would wait for each.
#pragma unroll 1  // unrolling a loop of unknown stride needs a division before the first load
  for (long long i = static_cast<long long>(split) * THREADS + threadIdx.x; i < packs; i += UNROLL * step) {
    Words a_values[UNROLL][ROWS] = {}, x_values[UNROLL] = {};
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      if (i + u * step < packs) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r) a_values[u][r] = reinterpret_cast<const Words*>(rows[r])[i + u * step];
        x_values[u] = reinterpret_cast<const Words*>(x)[i + u * step];
      }
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
#pragma unroll
        for (int e = 0; e < Pack::size; ++e)
          totals[r] += warpwise::to_float(warpwise::elements<T>(a_values[u][r]).at[e]) *
                       warpwise::to_float(warpwise::elements<T>(x_values[u]).at[e]);
      }
    }
  }
  if constexpr (kAhead) {
    totals[0] += warpwise::to_float(a_rest) * warpwise::to_float(x_rest);
  } else if constexpr (Pack::size > 1) {
    for (long long i = rest; i < k; i += THREADS) {
#pragma unroll
      for (int r = 0; r < ROWS; ++r) totals[r] += warpwise::to_float(rows[r][i]) * warpwise::to_float(x[i]);
    }
  }

  store_totals<THREADS>(totals, y, workspace, m, first, 1);
}
