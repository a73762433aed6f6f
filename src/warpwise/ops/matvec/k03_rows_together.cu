// 16-byte loads with many in flight per thread: several rows per group of threads share x, and the loop is unrolled.
//
// DRAM bandwidth needs bandwidth times latency in flight, about 40 KB per SM. If there are fewer rows than groups of
// threads, several blocks split a row, and the last block to finish adds the partial sums in order.

#include <warpwise/core/partial_sums.cuh>
#include <warpwise/core/reduce.cuh>

// a: (m, k), rows row_stride elements apart; x: (k,); y: (m,). If splits > 1, partials: (splits, m), and semaphores:
// one per group of ROWS rows. BYTES per load: 16 if the rows of a and x are 16-byte aligned, else the size of an
// element. THREADS compute ROWS rows. Block: (THREADS, groups), with groups = 1 unless splits is 1 and THREADS <= 32.
// Grid: cdiv(m, groups * ROWS) * splits blocks.
template <class T, int BYTES, int THREADS, int ROWS, int UNROLL>
__global__ void __launch_bounds__(THREADS < 128 ? 128 : THREADS) matvec_rows_together(const T* a, const T* x, T* y,
                                                                                      float* partials, int* semaphores,
                                                                                      long long m, long long k,
                                                                                      long long row_stride,
                                                                                      int splits) {
  using Pack = warpwise::Pack<T, BYTES>;
  __shared__ float warp_values[warpwise::kWarp];
  __shared__ float scratch[THREADS];
  const int split = blockIdx.x % splits, group = blockIdx.x / splits;
  const long long first = (static_cast<long long>(group) * blockDim.y + threadIdx.y) * ROWS;
  if (THREADS >= warpwise::kWarp && first >= m) return;  // whole warps exit; no barrier follows

  const T* rows[ROWS];  // rows past the last one are clamped to it
#pragma unroll
  for (int r = 0; r < ROWS; ++r) rows[r] = a + (first + r < m ? first + r : m - 1) * row_stride;
  float totals[ROWS] = {};
  const auto add = [&](const Pack& a_values, const Pack& x_values, int r) {
#pragma unroll
    for (int e = 0; e < Pack::size; ++e)
      totals[r] += warpwise::to_float(a_values.at[e]) * warpwise::to_float(x_values.at[e]);
  };

  const long long packs = k / Pack::size, step = static_cast<long long>(splits) * THREADS;
  long long i = static_cast<long long>(split) * THREADS + threadIdx.x;
  for (; i + (UNROLL - 1) * step < packs; i += UNROLL * step) {
    Pack a_values[UNROLL][ROWS], x_values[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
      for (int r = 0; r < ROWS; ++r) a_values[u][r] = warpwise::packs<BYTES>(rows[r])[i + u * step];
      x_values[u] = warpwise::packs<BYTES>(x)[i + u * step];
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
      for (int r = 0; r < ROWS; ++r) add(a_values[u][r], x_values[u], r);
    }
  }
  for (; i < packs; i += step) {
    const Pack x_values = warpwise::packs<BYTES>(x)[i];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) add(warpwise::packs<BYTES>(rows[r])[i], x_values, r);
  }
  for (long long rest = packs * Pack::size + threadIdx.x; split == 0 && rest < k; rest += THREADS) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) totals[r] += warpwise::to_float(rows[r][rest]) * warpwise::to_float(x[rest]);
  }

#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const float total = warpwise::team_reduce<warpwise::Sum, THREADS>(totals[r], warp_values);
    if (threadIdx.x > 0 || first + r >= m) continue;
    if (splits == 1)
      y[first + r] = warpwise::from_float<T>(total);
    else
      partials[split * m + first + r] = total;
  }
  if constexpr (THREADS >= warpwise::kWarp) {
    if (splits == 1 || !warpwise::is_last_block(semaphores + group, splits)) return;
    const float total = warpwise::reduce_partial_rows<ROWS, THREADS>(partials, m, first, splits, scratch, threadIdx.x);
    if (threadIdx.x < ROWS && first + threadIdx.x < m) y[first + threadIdx.x] = warpwise::from_float<T>(total);
  }
}
