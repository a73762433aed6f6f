// 16-byte loads of rows that do not begin at multiples of 16 bytes.
//
// If the row pitch is not a multiple of 16 bytes, every 2nd, 4th or 8th row has the same alignment. A team of threads
// computes rows of one alignment. Each thread loads one aligned 16-byte pack of each row. The elements of x for this
// pack lie in two aligned packs of x. The thread loads both packs and shifts them once for all of its rows.

#include <warpwise/core/words.cuh>
#include <warpwise/core/previous_kernel.cuh>

#include "row_totals.cuh"

constexpr int kBytes = 16, kWords = 4;  // of a pack

// 32 bytes that hold 16 bytes of x from the byte ``shift`` on.
struct Window {
  unsigned words[2 * kWords] = {};
  int shift = 0;
};

// The window of x[first], ..., x[first + Pack<T>::size - 1], all inside x: (k,). Both packs must be inside x, too;
// otherwise the elements are loaded one by one.
template <class T>
__device__ Window load_window(const T* x, long long first, long long k) {
  using Pack = warpwise::Pack<T>;
  Window window;
  const int skip = static_cast<int>(reinterpret_cast<unsigned long long>(x + first) % kBytes);
  const long long begin = first - skip / static_cast<int>(sizeof(T));
  if (begin >= 0 && begin + 2 * Pack::size <= k) {
    const auto* from = reinterpret_cast<const warpwise::Pack<unsigned>*>(x + begin);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const warpwise::Pack<unsigned> loaded = from[half];
#pragma unroll
      for (int w = 0; w < kWords; ++w) window.words[half * kWords + w] = loaded.at[w];
    }
    window.shift = skip;
  } else {
    Pack single;
#pragma unroll
    for (int e = 0; e < Pack::size; ++e) single.at[e] = x[first + e];
    memcpy(window.words, &single, kBytes);
  }
  return window;
}

template <class T>
__device__ warpwise::Pack<T> shifted(Window window) {
  unsigned (&words)[2 * kWords] = window.words;
  if (window.shift & 8) {
#pragma unroll
    for (int w = 0; w < 6; ++w) words[w] = words[w + 2];
  }
  if (window.shift & 4) {
#pragma unroll
    for (int w = 0; w < 5; ++w) words[w] = words[w + 1];
  }
  unsigned aligned[kWords];
#pragma unroll
  for (int w = 0; w < kWords; ++w) aligned[w] = __funnelshift_r(words[w], words[w + 1], window.shift % 4 * 8);
  warpwise::Pack<T> pack;
  memcpy(&pack, aligned, kBytes);
  return pack;
}

// a: (m, k), rows row_stride elements apart; x: (k,); y, workspace and R: as in k03. Rows ``period`` apart, a power of
// two, have the same alignment. THREADS compute ROWS rows. Block: (THREADS, teams), with teams = 1 unless THREADS <=
// 32. Grid: (cdiv(cdiv(m, period * ROWS) * period, teams), splits).
template <class T, class R, int THREADS, int ROWS, int UNROLL>
__global__ void __launch_bounds__(THREADS < 128 ? 128 : THREADS) matvec_unaligned_rows(
    const T* a, const T* x, R* y, int* workspace, long long m, long long k, long long row_stride, int period) {
  using Pack = warpwise::Pack<T>;
  using Words = warpwise::Words<T>;
  const int split = blockIdx.y, splits = gridDim.y;
  const long long team = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y, among = team & (period - 1);
  const long long first = (team - among) * ROWS + among;

  const T* rows[ROWS];  // rows past the last one are replaced by the first, or by the last one of the matrix
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const long long row = first + r * period;
    rows[r] = a + (row < m ? row : first < m ? first : m - 1) * row_stride;
  }
  float totals[ROWS] = {};
  const auto before = static_cast<long long>(-reinterpret_cast<unsigned long long>(rows[0]) % kBytes / sizeof(T));
  const long long head = before < k ? before : k, count = (k - head) / Pack::size;
  const long long step = static_cast<long long>(splits) * THREADS, tail = head + count * Pack::size;
  warpwise::wait_for_previous_kernel();

#pragma unroll 1  // unrolling a loop of unknown stride needs a division before the first load
  for (long long i = static_cast<long long>(split) * THREADS + threadIdx.x; i < count; i += UNROLL * step) {
    Words a_values[UNROLL][ROWS] = {};
    Window windows[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      if (i + u * step < count) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r) a_values[u][r] = reinterpret_cast<const Words*>(rows[r] + head)[i + u * step];
        windows[u] = load_window(x, head + (i + u * step) * Pack::size, k);
      }
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      const Pack x_values = shifted<T>(windows[u]);
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
#pragma unroll
        for (int e = 0; e < Pack::size; ++e)
          totals[r] +=
              warpwise::to_float(warpwise::elements<T>(a_values[u][r]).at[e]) * warpwise::to_float(x_values.at[e]);
      }
    }
  }
  for (long long i = threadIdx.x; split == 0 && i < head + k - tail; i += THREADS) {  // before and after the packs
    const long long column = i < head ? i : i - head + tail;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) totals[r] += warpwise::to_float(rows[r][column]) * warpwise::to_float(x[column]);
  }

  store_totals<THREADS>(totals, y, workspace, m, first, period);
}
