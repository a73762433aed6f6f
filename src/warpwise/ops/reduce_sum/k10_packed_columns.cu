// 16-byte loads along dimension 0, also of rows that are no multiple of 16 bytes: `fold` rows together are one line.
//
// A thread adds one pack of every line that it reads, so a block has a sum for each element of a line. A block that
// reads whole lines then adds the `fold` rows of its line. If there are few parts, the block of the last part adds the
// sums of the others, which it gets as in k09; of more parts, the last block of each team of parts may add those of its
// team first. Otherwise k08 adds the partial sums (parts, line), which it reads as (parts * fold, columns).

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
// before and after. TEAMS: of `team` parts, else all parts are one team. Block: (width, height), up to THREADS. Grid:
// (cdiv(packs, width), parts), in x 1 if fold > 1.
template <class T, class R, int THREADS, int VALUES, bool TEAMS>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) sum_packed_columns(const T* x, R* sums, int* workspace,
                                                                              long long elements, long long packs,
                                                                              long long pitch, int lines, int fold,
                                                                              int team) {
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
  // The last block of a team adds the sums of its team, then the last block of all those of the other teams: `groups`
  // threads take the sums of a column, four each if they are enough.
  const int begin = TEAMS ? part / team * team : 0;  // the first part of this block's team
  const bool ends = workspace && (part == others || TEAMS && part == begin + team - 1);
#pragma unroll 1
  for (int stage = ends ? 0 : 2; stage < (TEAMS && part == others ? 2 : 1); ++stage) {
    auto* const from = words + (stage == 0 ? begin : team - 1) * pitch;
    const int sent = stage == 0 ? part - begin : begin / team;
    const int step = static_cast<int>(pitch) * (stage == 0 ? 1 : team);
    const int groups = max(1, min(threads / count, warpwise::cdiv(sent, kFew)));
    for (int i = thread; sent > 0 && i < groups * count; i += threads) {
      const int group = i / count, column = i - group * count;
      float sum = group == 0 ? scratch[i] : 0.0f;
      if (first + column < pitch) {
        sum += groups * kFew < sent ? warpwise::take_sum<kMany>(from + column, sent, group, groups, step)
                                    : warpwise::take_sum<kFew>(from + column, sent, group, groups, step);
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
