// 16-byte loads along dimension 0, also of rows that are no multiple of 16 bytes: `fold` rows together are one line.
//
// A thread adds one pack of every line that it reads, so a block has a sum for each element of a line. A block that
// reads whole lines then adds the `fold` rows of its line. If there are few parts, the block of the last part adds the
// sums of the others, which it gets as in k09. Otherwise k08 adds the partial sums (parts, line), which it reads as
// (parts * fold, columns).

#include <warpwise/core/packed_columns.cuh>
#include <warpwise/core/partial_sums.cuh>
#include <warpwise/core/previous_kernel.cuh>

// Adds `from` lines of `count` floats, eight at a time, into the first one. All threads of a block call it.
__device__ inline void add_lines(float* lines, int from, int count, int thread, int threads) {
  for (int to; from > 1; from = to) {
    to = warpwise::cdiv(from, 8);
    __syncthreads();
    for (int i = thread; i < to * count; i += threads) {
      float sum = 0.0f;
#pragma unroll
      for (int s = 0; s < 8; ++s)
        if (i + s * to * count < from * count) sum += lines[i + s * to * count];
      lines[i] = sum;
    }
  }
  __syncthreads();
}

// x: `elements`, in `lines` of `packs` packs, the last line perhaps partial; sums: (parts, pitch), where
// pitch is packs * Pack::size / fold, or (pitch,) with a workspace of parts - 1 words of 8 bytes for each sum, zeros
// before and after. Block: (width, height), up to THREADS. Grid: (cdiv(packs, width), parts), in x 1 if fold > 1.
template <class T, class R, int THREADS, int VALUES>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) sum_packed_columns(const T* x, R* sums, int* workspace,
                                                                              long long elements, long long packs,
                                                                              long long pitch, int lines, int fold) {
  using Tile = warpwise::PackedColumns<T, VALUES>;
  using Sums = warpwise::Pack<float>;
  constexpr int kSize = Tile::kSize, kFew = 4, kMany = 8;
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

  // The sums of a line are `fold` rows of the array: height * fold lines of `count` elements.
  const int threads = width * height, count = width * kSize / fold, others = gridDim.y - 1;
  const long long first = static_cast<long long>(blockIdx.x) * count;
  auto* const words = reinterpret_cast<unsigned long long*>(workspace) + first;
  add_lines(scratch, height * fold, count, thread, threads);
  if (workspace && part == others) {  // `groups` threads take the sums of a column, four each if they are enough
    const int groups = max(1, min(threads / count, warpwise::cdiv(others, kFew)));
    for (int i = thread; i < groups * count; i += threads) {
      const int group = i / count, column = i - group * count;
      float sum = group == 0 ? scratch[i] : 0.0f;
      if (first + column < pitch) {
        sum += groups * kFew < others
                   ? warpwise::take_sum<kMany>(words + column, others, group, groups, static_cast<int>(pitch))
                   : warpwise::take_sum<kFew>(words + column, others, group, groups, static_cast<int>(pitch));
      }
      scratch[i] = sum;
    }
    add_lines(scratch, groups, count, thread, threads);
  }
  for (int i = thread; i < count && first + i < pitch; i += threads) {
    if (workspace && part < others)
      warpwise::send_value(words + part * pitch + i, scratch[i]);
    else
      sums[(workspace ? 0 : part) * pitch + first + i] = warpwise::from_float<R>(scratch[i]);
  }
}
