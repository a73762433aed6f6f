// Rows that do not begin at multiples of 16 bytes, read by 16-byte loads.
//
// If the row pitch is not a multiple of 16 bytes, the alignment repeats every 2, 4 or 8 rows. A team of threads
// computes rows of the same alignment, and each thread loads one 16-byte pack of each of them. The matching elements of
// x are in two packs: the thread loads both and shifts their words in registers, once for all rows of the team.

#include <warpwise/core/pack.cuh>
#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/reduce.cuh>

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

// a: (m, k), rows row_stride elements apart; x: (k,); y: (splits, m), where R is T if splits is 1, else float. Rows
// ``period`` apart, a power of two, have the same alignment. THREADS compute ROWS rows. Block: (THREADS, teams), with
// teams = 1 unless THREADS <= 32. Grid: (cdiv(cdiv(m, period * ROWS) * period, teams), splits).
template <class T, class R, int THREADS, int ROWS, int UNROLL>
__global__ void __launch_bounds__(THREADS < 128 ? 128 : THREADS) matvec_unaligned_rows(const T* a, const T* x, R* y,
                                                                                       long long m, long long k,
                                                                                       long long row_stride,
                                                                                       int period) {
  using Pack = warpwise::Pack<T>;
  constexpr int kWarps = warpwise::cdiv(THREADS, warpwise::kWarp);
  __shared__ float of_warps[kWarps][ROWS];
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
    Pack a_values[UNROLL][ROWS] = {};
    Window windows[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      if (i + u * step < count) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r) a_values[u][r] = warpwise::packs(rows[r] + head)[i + u * step];
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
          totals[r] += warpwise::to_float(a_values[u][r].at[e]) * warpwise::to_float(x_values.at[e]);
      }
    }
  }
  for (long long i = threadIdx.x; split == 0 && i < head + k - tail; i += THREADS) {  // before and after the packs
    const long long column = i < head ? i : i - head + tail;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) totals[r] += warpwise::to_float(rows[r][column]) * warpwise::to_float(x[column]);
  }

#pragma unroll
  for (int r = 0; r < ROWS; ++r)
    totals[r] = warpwise::warp_reduce < warpwise::Sum, THREADS<warpwise::kWarp ? THREADS : warpwise::kWarp>(totals[r]);
  if constexpr (kWarps > 1) {
    const int warp = threadIdx.x / warpwise::kWarp, lane = threadIdx.x % warpwise::kWarp;
    if (lane == 0) {
#pragma unroll
      for (int r = 0; r < ROWS; ++r) of_warps[warp][r] = totals[r];
    }
    __syncthreads();
    if (threadIdx.x < ROWS && first + threadIdx.x * period < m) {
      float total = 0.0f;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) total += of_warps[w][threadIdx.x];
      y[split * m + first + threadIdx.x * period] = warpwise::from_float<R>(total);
    }
  } else if (threadIdx.x == 0) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
      if (first + r * period < m) y[split * m + first + r * period] = warpwise::from_float<R>(totals[r]);
  }
}
