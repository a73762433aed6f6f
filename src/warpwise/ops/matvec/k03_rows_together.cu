// 16-byte loads, many in flight a thread: several rows a team, which share the elements of x, in several turns at once.
//
// What DRAM needs in flight is its rate times its latency, some 40 KB an SM. Where there are fewer rows than teams,
// several blocks take parts of a row, and the last one to finish adds the parts, in order.

#include <warpwise/core/partial_sums.cuh>
#include <warpwise/core/reduce.cuh>

// a: (m, k), its rows row_stride elements apart; x: (k,); y: (m,). With parts > 1, partials: (parts, m), and tickets:
// one for each group of ROWS rows. BYTES a load: 16 where the rows of a and x lie on 16 bytes, else an element's size.
// Block: (THREADS, teams), teams = 1 unless parts is 1 and a team at most a warp; a part of a warp takes whole rows.
// Grid: cdiv(m, teams * ROWS) * parts blocks.
template <class T, int BYTES, int THREADS, int ROWS, int TURNS>
__global__ void __launch_bounds__(THREADS < 128 ? 128 : THREADS) matvec_rows_together(const T* a, const T* x, T* y,
                                                                                      float* partials, int* tickets,
                                                                                      long long m, long long k,
                                                                                      long long row_stride, int parts) {
  using Pack = warpwise::Pack<T, BYTES>;
  __shared__ float of_warp[warpwise::kWarp];
  __shared__ float room[THREADS];
  const int part = blockIdx.x % parts, group = blockIdx.x / parts;
  const long long first = (static_cast<long long>(group) * blockDim.y + threadIdx.y) * ROWS;
  if (THREADS >= warpwise::kWarp && first >= m) return;  // whole warps leave, and only where no barrier follows

  const T* rows[ROWS];  // past the last one, the last one again
#pragma unroll
  for (int r = 0; r < ROWS; ++r) rows[r] = a + (first + r < m ? first + r : m - 1) * row_stride;
  float totals[ROWS] = {};
  const auto add = [&](const Pack& of_a, const Pack& of_x, int r) {
#pragma unroll
    for (int e = 0; e < Pack::size; ++e) totals[r] += warpwise::to_float(of_a.at[e]) * warpwise::to_float(of_x.at[e]);
  };

  const long long packs = k / Pack::size, step = static_cast<long long>(parts) * THREADS;
  long long i = static_cast<long long>(part) * THREADS + threadIdx.x;
  for (; i + (TURNS - 1) * step < packs; i += TURNS * step) {
    Pack of_a[TURNS][ROWS], of_x[TURNS];
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
#pragma unroll
      for (int r = 0; r < ROWS; ++r) of_a[turn][r] = warpwise::packs<BYTES>(rows[r])[i + turn * step];
      of_x[turn] = warpwise::packs<BYTES>(x)[i + turn * step];
    }
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
#pragma unroll
      for (int r = 0; r < ROWS; ++r) add(of_a[turn][r], of_x[turn], r);
    }
  }
  for (; i < packs; i += step) {
    const Pack of_x = warpwise::packs<BYTES>(x)[i];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) add(warpwise::packs<BYTES>(rows[r])[i], of_x, r);
  }
  for (long long rest = packs * Pack::size + threadIdx.x; part == 0 && rest < k; rest += THREADS) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) totals[r] += warpwise::to_float(rows[r][rest]) * warpwise::to_float(x[rest]);
  }

#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const float total = warpwise::team_reduce<warpwise::Sum, THREADS>(totals[r], of_warp);
    if (threadIdx.x > 0 || first + r >= m) continue;
    if (parts == 1)
      y[first + r] = warpwise::from_float<T>(total);
    else
      partials[part * m + first + r] = total;
  }
  if constexpr (THREADS >= warpwise::kWarp) {
    if (parts == 1 || !warpwise::is_last_block(tickets + group, parts)) return;
    const float total = warpwise::reduce_partial_rows<ROWS, THREADS>(partials, m, first, parts, room, threadIdx.x);
    if (threadIdx.x < ROWS && first + threadIdx.x < m) y[first + threadIdx.x] = warpwise::from_float<T>(total);
  }
}
