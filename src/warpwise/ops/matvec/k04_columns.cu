// A matrix whose columns lie in memory one after another: lanes keep neighbouring rows and walk along the columns.
//
// A row's elements are far apart, but 16-byte loads of neighbouring lanes lie on end. What a warp has left over goes to
// other columns of the same rows, as do the block's other warps, and other blocks; their sums meet in shared memory,
// and those of blocks in the last one to finish, in order.

#include <warpwise/core/pack.cuh>
#include <warpwise/core/partial_sums.cuh>

constexpr int kThreads = 256;

// a: (m, k), its columns column_stride elements apart; x: (k,); y: (m,). With parts > 1, partials: (parts, m), and
// tickets: one for each group of rows. BYTES a load: 16 where m and column_stride are multiples of it and a lies on it,
// else an element's size. LANES neighbours in a column, TURNS columns at once; SHORT: a thread has no more than those.
// Grid: cdiv(m, LANES * BYTES / sizeof(T)) * parts blocks.
template <class T, int BYTES, int LANES, int TURNS, bool SHORT>
__global__ void __launch_bounds__(kThreads) matvec_columns(const T* a, const T* x, T* y, float* partials, int* tickets,
                                                           long long m, long long k, long long column_stride,
                                                           int parts) {
  using Pack = warpwise::Pack<T, BYTES>;
  constexpr int kRows = LANES * Pack::size, kColumns = kThreads / LANES;
  __shared__ float room[kColumns * kRows];
  const int part = blockIdx.x % parts, group = blockIdx.x / parts, lane = threadIdx.x % LANES;
  const long long first = static_cast<long long>(group) * kRows, row = first + lane * Pack::size;
  const T* const from = a + (row < m ? row : 0);  // if a pack's first row exists, all of them do

  float totals[Pack::size] = {};
  const auto add = [&](const Pack& of_a, float of_x) {
#pragma unroll
    for (int e = 0; e < Pack::size; ++e) totals[e] += warpwise::to_float(of_a.at[e]) * of_x;
  };
  const long long step = static_cast<long long>(parts) * kColumns;
  long long i = static_cast<long long>(part) * kColumns + threadIdx.x / LANES;
  if constexpr (SHORT) {
    Pack of_a[TURNS];
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn)
      if (i + turn * step < k) of_a[turn] = *warpwise::packs<BYTES>(from + (i + turn * step) * column_stride);
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn)
      if (i + turn * step < k) add(of_a[turn], warpwise::to_float(x[i + turn * step]));
    i = k;
  }
  for (; i + (TURNS - 1) * step < k; i += TURNS * step) {
    Pack of_a[TURNS];
    float of_x[TURNS];
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
      of_a[turn] = *warpwise::packs<BYTES>(from + (i + turn * step) * column_stride);
      of_x[turn] = warpwise::to_float(x[i + turn * step]);
    }
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) add(of_a[turn], of_x[turn]);
  }
  for (; i < k; i += step) add(*warpwise::packs<BYTES>(from + i * column_stride), warpwise::to_float(x[i]));

#pragma unroll
  for (int e = 0; e < Pack::size; ++e) room[threadIdx.x / LANES * kRows + e * LANES + lane] = totals[e];
  __syncthreads();
  for (int at = threadIdx.x; at < kRows;
       at += kThreads) {  // row lane * size + e at e * LANES + lane, free of conflicts
    const long long to = first + at % LANES * Pack::size + at / LANES;
    float total = 0.0f;
#pragma unroll 8
    for (int c = 0; c < kColumns; ++c) total += room[c * kRows + at];
    if (to >= m) continue;
    if (parts == 1)
      y[to] = warpwise::from_float<T>(total);
    else
      partials[part * m + to] = total;
  }
  if (parts == 1 || !warpwise::is_last_block(tickets + group, parts)) return;

  static_assert(kRows <= kThreads, "a thread a row at most");
  const float total = warpwise::reduce_partial_rows<kRows, kThreads>(partials, m, first, parts, room, threadIdx.x);
  if (threadIdx.x < kRows && first + threadIdx.x < m) y[first + threadIdx.x] = warpwise::from_float<T>(total);
}
