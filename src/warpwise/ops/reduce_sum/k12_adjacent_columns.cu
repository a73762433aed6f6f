// Vectorised loads: a thread loads a word of 8 or 16 bytes of a row and sums the adjacent columns of this word.
//
// In k08 a thread has one column. 2 x 1000000 in float32 are then 3907 blocks, which the GPU starts in 5.9 µs, one
// every 1.5 ns; here a word of 16 bytes has four columns, so there are 977 blocks. Longer columns have two blocks for
// each SM, with words of 8 bytes (4 bytes of 2-byte elements that 8 bytes do not divide): `height` threads share a
// column, and 16 loads in flight per thread are 64 KB per SM.

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/words.cuh>

// x: (words / inner, length, inner) words of BYTES, contiguous; sums: `words` words of sums, of any alignment. Block:
// (width, height), at most THREADS threads. Grid: cdiv(words, width) blocks. A thread has VALUES loads in flight.
template <class T, int BYTES, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS) sum_adjacent_columns(const T* x, T* sums, unsigned words, unsigned inner,
                                                                int length) {
  using Pack = warpwise::Pack<T, BYTES>;
  __shared__ float of_threads[THREADS * Pack::size];
  const int width = blockDim.x, height = blockDim.y, line = threadIdx.y, thread = line * width + threadIdx.x;
  const unsigned first = blockIdx.x * width, word = first + threadIdx.x, outer = inner < words ? word / inner : 0;
  const T* from = x + ((static_cast<long long>(outer) * (length - 1) + line) * inner + word) * Pack::size;
  const long long step = static_cast<long long>(height) * inner * Pack::size;
  float totals[Pack::size] = {};
  warpwise::wait_for_previous_kernel();
#pragma unroll 1
  for (int row = word < words ? line : length; row < length;) {
    warpwise::Words<T, BYTES> values[VALUES] = {};
#pragma unroll
    for (int v = 0; v < VALUES; ++v, row += height, from += step)
      if (row < length) values[v] = warpwise::words_at<BYTES>(from);
#pragma unroll
    for (int v = 0; v < VALUES; ++v) {
#pragma unroll
      for (int e = 0; e < Pack::size; ++e) totals[e] += warpwise::to_float(warpwise::elements<T>(values[v]).at[e]);
    }
  }

  T* const to = sums + static_cast<long long>(first) * Pack::size;
  if (height == 1 && warpwise::aligned<BYTES>(sums)) {
    Pack result;
#pragma unroll
    for (int e = 0; e < Pack::size; ++e) result.at[e] = warpwise::from_float<T>(totals[e]);
    if (word < words) warpwise::packs<BYTES>(to)[threadIdx.x] = result;
    return;
  }
#pragma unroll
  for (int e = 0; e < Pack::size; ++e) of_threads[thread * Pack::size + e] = totals[e];
  __syncthreads();
  const int columns = min(static_cast<unsigned>(width), words - first) * Pack::size;
  for (int column = thread; column < columns; column += width * height) {
    float sum = 0.0f;
#pragma unroll 8
    for (int i = 0; i < height; ++i) sum += of_threads[i * width * Pack::size + column];
    to[column] = warpwise::from_float<T>(sum);
  }
}
