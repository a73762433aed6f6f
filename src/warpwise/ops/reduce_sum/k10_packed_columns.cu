// 16-byte loads along dimension 0, also of rows that are no multiple of 16 bytes: `fold` rows together are one line.
//
// A thread adds one pack of every line that it reads. One block folds a line that it holds; otherwise the partial sums
// (parts, line) are (parts * fold, columns) to k08.

#include <warpwise/core/packed_columns.cuh>
#include <warpwise/core/previous_kernel.cuh>

// x: `elements`, in `lines` of `packs` packs, the last line perhaps partial; sums: (parts, line / fold). Block: (width,
// height), up to THREADS. Grid: (cdiv(packs, width), parts), in x 1 if fold > 1; a part has `share` lines.
template <class T, class R, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) sum_packed_columns(const T* x, R* sums, long long elements,
                                                                              long long packs, int lines, int fold) {
  using Tile = warpwise::PackedColumns<T, VALUES>;
  using Sums = warpwise::Pack<float>;
  constexpr int kSize = Tile::kSize;
  __shared__ __align__(16) float scratch[THREADS * kSize];
  const int width = blockDim.x, height = blockDim.y, thread = threadIdx.y * width + threadIdx.x, part = blockIdx.y;
  const Tile here(elements, packs, lines);
  float totals[kSize] = {};
  warpwise::wait_for_previous_kernel();
#pragma unroll 1
  for (int line = here.first; line < here.last; line += here.stride()) {
    typename Tile::Words words[VALUES];
    here.load(x, line, 0.0f, words);
#pragma unroll
    for (int v = 0; v < VALUES; ++v) {
#pragma unroll
      for (int e = 0; e < kSize; ++e) totals[e] += here.element(words[v], e);
    }
  }
#pragma unroll
  for (int e = 0; e < kSize; e += Sums::size) {
    Sums four;
#pragma unroll
    for (int s = 0; s < Sums::size; ++s) four.at[s] = totals[e + s];
    *warpwise::packs(scratch + thread * kSize + e) = four;
  }

  // The sums of a line are `fold` rows of the array: height * fold lines of `count` elements, eight added at a time.
  const int count = width * kSize / fold;
  for (int from = height * fold, to; from > 1; from = to) {
    to = warpwise::cdiv(from, 8);
    __syncthreads();
    for (int i = thread; i < to * count; i += width * height) {
      float sum = 0.0f;
#pragma unroll
      for (int s = 0; s < 8; ++s)
        if (i + s * to * count < from * count) sum += scratch[i + s * to * count];
      scratch[i] = sum;
    }
  }
  __syncthreads();
  const long long line = packs * kSize / fold, first = static_cast<long long>(blockIdx.x) * count;
  for (int i = thread; i < count && first + i < line; i += width * height)
    sums[part * line + first + i] = warpwise::from_float<R>(scratch[i]);
}
