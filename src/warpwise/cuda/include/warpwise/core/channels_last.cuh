// The rows of a matrix (rows, channels), such as images in NHWC order, divided among blocks, and sums over its columns.
#pragma once

#include <warpwise/core/pack.cuh>
#include <warpwise/core/partial_sums.cuh>
#include <warpwise/core/reduce.cuh>

namespace warpwise {

constexpr int kRowThreads = 512;  // most threads of a block

// A thread takes VECTOR adjacent channels; `across` threads, up to 32, are adjacent in a row, and a block reads
// blockDim.x / across rows at once. Grid: (parts, tiles of across * VECTOR channels).
template <int VECTOR>
struct Columns {
  int across, channel;  // the first of this thread's channels
  bool valid;           // false past the last channel, and in threads left over where `across` is not a power of two

  __device__ static Columns of(int across, int channels) {
    const int group = threadIdx.x / across, channel = (blockIdx.y * across + threadIdx.x - group * across) * VECTOR;
    return {across, channel, channel < channels && group < blockDim.x / across};
  }

  // Calls use(offset, load(offset)) for each row of this thread; offset in elements. The loads of kBatch rows are in
  // flight together, also where `use` writes.
  template <class Load, class Use>
  __device__ void for_each_row(long long rows, int channels, Load load, Use use) const {
    constexpr int kBatch = 4;
    if (!valid) return;
    const int at_once = blockDim.x / across;
    const long long step = static_cast<long long>(gridDim.x) * at_once;
    long long row = static_cast<long long>(blockIdx.x) * at_once + threadIdx.x / across;
    for (; row < rows; row += kBatch * step) {
      decltype(load(0ll)) loaded[kBatch];
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        if (row + b * step < rows) loaded[b] = load((row + b * step) * channels + channel);
      }
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        if (row + b * step < rows) use((row + b * step) * channels + channel, loaded[b]);
      }
    }
  }
};

// The same rows in batches of BATCH, whose loads are in flight together: load(), then use(), as long as `more()`. With
// LAST_FIRST the last rows come first, because the previous kernel has left them in L2.
template <int BATCH, class Loaded, bool LAST_FIRST = false>
struct RowBatches {
  long long row, step, rows;
  int channels, channel;
  bool valid;
  Loaded loaded[BATCH];

  template <int VECTOR>
  __device__ RowBatches(const Columns<VECTOR>& own, long long rows_, int channels_)
      : rows(rows_), channels(channels_), channel(own.channel), valid(own.valid) {
    const int at_once = blockDim.x / own.across;
    step = static_cast<long long>(gridDim.x) * at_once;
    row = static_cast<long long>(blockIdx.x) * at_once + threadIdx.x / own.across;
  }
  __device__ bool more() const { return valid && row < rows; }
  __device__ long long offset(int b) const {
    const long long from_end = rows - 1 - row - b * step;
    return (LAST_FIRST ? from_end : row + b * step) * channels + channel;
  }
  template <class Load>
  __device__ void load(Load load) {
#pragma unroll
    for (int b = 0; b < BATCH; ++b) {
      if (valid && row + b * step < rows) loaded[b] = load(offset(b));
    }
  }
  // use(offset, loaded) for each row of the batch; then the next batch is the current one.
  template <class Use>
  __device__ void use(Use use) {
#pragma unroll
    for (int b = 0; b < BATCH; ++b) {
      if (row + b * step < rows) use(offset(b), loaded[b]);
    }
    row += BATCH * step;
  }
};

// Two sums over the rows of a block. Thread t < across * VECTOR gets those of channel blockIdx.y * across * VECTOR + t.
// The rows of a warp are added by shuffles if `across` is a power of two, else in shared memory.
template <int VECTOR>
__device__ inline void block_column_sums(float (&first)[VECTOR], float (&second)[VECTOR], const Columns<VECTOR>& own,
                                         float& total, float& other) {
  __shared__ float sums[2][kRowThreads * VECTOR];  // (row groups, lanes)
  const int thread = threadIdx.x, lane = thread % kWarp, lanes = own.across * VECTOR;
  const bool shuffled = (own.across & (own.across - 1)) == 0;
  int groups = blockDim.x / own.across;
  if (shuffled) {
    groups = blockDim.x / kWarp;
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) {
      for (int distance = own.across; distance < kWarp; distance *= 2) {
        first[e] += __shfl_xor_sync(kFullMask, first[e], distance);
        second[e] += __shfl_xor_sync(kFullMask, second[e], distance);
      }
    }
  }
  const int column = shuffled ? lane : thread % own.across, group = thread / (shuffled ? kWarp : own.across);
  if (column < own.across && group < groups) {
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) {
      sums[0][group * lanes + column * VECTOR + e] = first[e];
      sums[1][group * lanes + column * VECTOR + e] = second[e];
    }
  }
  __syncthreads();
  if (!shuffled) {  // up to 256 groups: each group of `lanes` threads adds some
    const int adders = blockDim.x / lanes, adder = thread / lanes, at = thread - adder * lanes;
    float part = 0.0f, other_part = 0.0f;
    if (adder < adders) {
#pragma unroll 4
      for (int from = adder; from < groups; from += adders) {
        part += sums[0][from * lanes + at];
        other_part += sums[1][from * lanes + at];
      }
    }
    __syncthreads();
    if (adder < adders) {
      sums[0][thread] = part;
      sums[1][thread] = other_part;
    }
    __syncthreads();
    groups = min(adders, groups);
  }
  total = other = 0.0f;
  if (thread < lanes) {
#pragma unroll 8
    for (int from = 0; from < groups; ++from) {
      total += sums[0][from * lanes + thread];
      other += sums[1][from * lanes + thread];
    }
  }
}

// The sums over all `parts` of partials: (parts, channels, 2), for the channels of a tile; the same threads get them.
__device__ inline void add_column_parts(const float* partials, int parts, int lanes, int channels, float& total,
                                        float& other) {
  __shared__ float scratch[2][kRowThreads];
  const int thread = threadIdx.x, groups = blockDim.x / lanes, group = thread / lanes;
  const int channel = blockIdx.y * lanes + thread - group * lanes;
  total = other = 0.0f;
  if (channel < channels && group < groups) {
#pragma unroll 8
    for (int part = group; part < parts; part += groups) {
      const Pack<float, 8> pair = *packs<8>(partials + 2 * (static_cast<long long>(part) * channels + channel));
      total += pair.at[0];
      other += pair.at[1];
    }
  }
  scratch[0][thread] = total;
  scratch[1][thread] = other;
  __syncthreads();
  if (thread < lanes) {
    for (int from = lanes + thread; from < min(groups, parts) * lanes; from += lanes) {
      total += scratch[0][from];
      other += scratch[1][from];
    }
  }
}

// Two sums over all rows. Returns true in the last block of a tile of channels, whose threads get the totals as in
// block_column_sums. partials: (gridDim.x, channels, 2); semaphores: one for each tile, 0 before and after.
template <int VECTOR>
__device__ inline bool column_sums(float (&first)[VECTOR], float (&second)[VECTOR], const Columns<VECTOR>& own,
                                   int channels, float* partials, int* semaphores, float& total, float& other) {
  block_column_sums(first, second, own, total, other);
  const int thread = threadIdx.x, lanes = own.across * VECTOR;
  if (gridDim.x == 1) return true;
  const int tile = blockIdx.y * lanes;
  if (thread < lanes && tile + thread < channels) {
    float* const mine = partials + 2 * (static_cast<long long>(blockIdx.x) * channels + tile + thread);
    mine[0] = total;
    mine[1] = other;
  }
  if (!is_last_block(semaphores + blockIdx.y, gridDim.x)) return false;
  const int groups = blockDim.x / lanes, group = thread / lanes, column = thread % lanes;
  total = other = 0.0f;
  if (tile + column < channels) {
#pragma unroll 8
    for (int part = group; part < gridDim.x; part += groups) {
      const float* const from = partials + 2 * (static_cast<long long>(part) * channels + tile + column);
      total += __ldcg(from);
      other += __ldcg(from + 1);
    }
  }
  __shared__ float scratch[kRowThreads], others[kRowThreads];
  scratch[thread] = total;
  others[thread] = other;
  __syncthreads();
  if (thread < lanes) {
    for (int other_group = 1; other_group < groups; ++other_group) {
      total += scratch[other_group * lanes + thread];
      other += others[other_group * lanes + thread];
    }
  }
  return true;
}

}  // namespace warpwise
