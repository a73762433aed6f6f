// 16-byte loads of rows that do not begin at multiples of 16 bytes.
//
// If the row pitch is not a multiple of 16 bytes, every 2nd, 4th or 8th row has the same alignment. A team of threads
// computes rows of one alignment by aligned 16-byte packs. The elements of x for a pack lie in two aligned packs of x.
// A thread loads both and shifts them, by the same number of bytes for all packs of its rows.

#include <warpwise/core/words.cuh>
#include <warpwise/core/previous_kernel.cuh>

#include "row_totals.cuh"

constexpr int kBytes = 16, kWords = 4;  // of a pack

// The 16 bytes from the byte ``skip`` < 16 of two packs on.
template <class T>
__device__ warpwise::Pack<unsigned> shifted(const warpwise::Pack<unsigned> (&halves)[2], int skip) {
  unsigned words[2 * kWords];
  memcpy(words, halves, sizeof(words));
  if (skip & 8) {
#pragma unroll
    for (int w = 0; w < 6; ++w) words[w] = words[w + 2];
  }
  if (skip & 4) {
#pragma unroll
    for (int w = 0; w < 5; ++w) words[w] = words[w + 1];
  }
  warpwise::Pack<unsigned> pack;
#pragma unroll
  for (int w = 0; w < kWords; ++w)
    pack.at[w] = sizeof(T) < 4 ? __funnelshift_r(words[w], words[w + 1], skip % 4 * 8) : words[w];
  return pack;
}

// a: (m, k), rows row_stride elements apart; x: (k,); y, workspace and R: as in k03. Rows ``period`` apart, a power of
// two, have the same alignment. THREADS, at least a warp, compute ROWS rows and have UNROLL packs of each in flight.
// Block: (THREADS, teams), with teams = 1 unless THREADS = 32. Grid: (cdiv(cdiv(m, period * ROWS) * period, teams),
// splits).
template <class T, class R, int THREADS, int ROWS, int UNROLL, int BLOCK = warpwise::block_of_teams(THREADS)>
__global__ void __launch_bounds__(BLOCK, 1024 / BLOCK) matvec_unaligned_rows(const T* a, const T* x, R* y,
                                                                             int* workspace, long long m, long long k,
                                                                             long long row_stride, int period) {
  static_assert(THREADS >= warpwise::kWarp, "a thread has at most one element that is in no pack");
  using Pack = warpwise::Pack<T>;
  using Words = warpwise::Words<T>;
  constexpr int kSize = Pack::size;
  const int split = blockIdx.y, splits = gridDim.y;
  const long long team = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y, among = team & (period - 1);
  const long long first = (team - among) * ROWS + among;

  const T* rows[ROWS];  // rows past the last one are replaced by the first, or by the last one of the matrix
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const long long row = first + r * period;
    rows[r] = a + (row < m ? row : first < m ? first : m - 1) * row_stride;
  }
  // Pack i is a[head + i * kSize] and so on, i < count. It needs two packs of x, the first one at x[from + i * kSize].
  long long head = -reinterpret_cast<unsigned long long>(rows[0]) % kBytes / sizeof(T);
  const int skip = static_cast<int>(reinterpret_cast<unsigned long long>(x + head) % kBytes);
  long long from = head - skip / static_cast<int>(sizeof(T));
  if (from < 0) head += kSize, from += kSize;
  const long long whole = (k - from) / kSize - 1, count = whole > 0 ? whole : 0;
  if (!count) head = 0;
  // The other elements, fewer than 32: before the packs and after them.
  const long long edge = threadIdx.x < head ? threadIdx.x : threadIdx.x + count * kSize;
  const bool has_edge = split == 0 && edge < k;
  const long long step = static_cast<long long>(splits) * THREADS;
  warpwise::wait_for_previous_kernel();

  T edges[ROWS], x_edge = warpwise::from_float<T>(0.0f);
  if (has_edge) {
    x_edge = x[edge];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) edges[r] = rows[r][edge];
  }
  float totals[ROWS] = {};
#pragma unroll 1  // unrolling a loop of unknown stride needs a division before the first load
  for (long long i = static_cast<long long>(split) * THREADS + threadIdx.x; i < count; i += UNROLL * step) {
    Words a_values[UNROLL][ROWS] = {}, x_halves[UNROLL][2] = {};
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      if (i + u * step < count) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r) a_values[u][r] = reinterpret_cast<const Words*>(rows[r] + head)[i + u * step];
#pragma unroll
        for (int half = 0; half < 2; ++half)
          x_halves[u][half] = reinterpret_cast<const Words*>(x + from)[i + u * step + half];
      }
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      const Words x_values = shifted<T>(x_halves[u], skip);
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
#pragma unroll
        for (int e = 0; e < kSize; ++e)
          totals[r] += warpwise::to_float(warpwise::elements<T>(a_values[u][r]).at[e]) *
                       warpwise::to_float(warpwise::elements<T>(x_values).at[e]);
      }
    }
  }
  if (has_edge) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) totals[r] += warpwise::to_float(edges[r]) * warpwise::to_float(x_edge);
  }

  store_totals<THREADS>(totals, y, workspace, m, first, period);
}
