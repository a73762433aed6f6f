// Many columns of few elements: a thread sums the columns of one 16-byte pack, without an exchange.
//
// In k08 a thread has one column. 2 x 1000000 in float32 are then 3907 blocks, which the GPU starts in 5.9 µs, one
// every 1.5 ns; here they are 977.

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/words.cuh>

// x: (packs / inner, length, inner) packs, contiguous; sums: `packs` packs, or misaligned elements. Block: THREADS.
// Grid: cdiv(packs, THREADS). VALUES loads of a thread are in flight.
template <class T, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS) sum_adjacent_columns(const T* x, T* sums, unsigned packs, unsigned inner,
                                                                int length) {
  using Pack = warpwise::Pack<T>;
  const unsigned pack = blockIdx.x * THREADS + threadIdx.x, outer = inner < packs ? pack / inner : 0;
  warpwise::wait_for_previous_kernel();
  if (pack >= packs) return;
  const T* from = x + (static_cast<long long>(outer) * (length - 1) * inner + pack) * Pack::size;
  const long long step = static_cast<long long>(inner) * Pack::size;
  float totals[Pack::size] = {};
#pragma unroll 1
  for (int row = 0; row < length; row += VALUES) {
    warpwise::Words<T> words[VALUES] = {};
#pragma unroll
    for (int v = 0; v < VALUES; ++v, from += step)
      if (row + v < length) words[v] = warpwise::words_at(from);
#pragma unroll
    for (int v = 0; v < VALUES; ++v) {
#pragma unroll
      for (int e = 0; e < Pack::size; ++e) totals[e] += warpwise::to_float(warpwise::elements<T>(words[v]).at[e]);
    }
  }
  Pack result;
#pragma unroll
  for (int e = 0; e < Pack::size; ++e) result.at[e] = warpwise::from_float<T>(totals[e]);
  T* const to = sums + static_cast<long long>(pack) * Pack::size;
  if (warpwise::aligned(sums)) {
    *warpwise::packs(to) = result;
  } else {
#pragma unroll
    for (int e = 0; e < Pack::size; ++e) to[e] = result.at[e];
  }
}
