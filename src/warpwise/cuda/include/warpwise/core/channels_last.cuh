// The rows of a matrix (rows, channels), such as images in NHWC order, divided among blocks, and sums over its columns.
#pragma once

#include <warpwise/core/partial_sums.cuh>
#include <warpwise/core/reduce.cuh>

namespace warpwise {

constexpr int kRowThreads = 256;

// A thread takes VECTOR adjacent channels; `across` threads (a power of two up to 32) are adjacent in a row, and a
// block reads 256 / across rows at once. Grid: (parts, tiles of across * VECTOR channels).
template <int VECTOR>
struct Columns {
  int across, channel;  // the first of this thread's channels
  bool valid;           // false past the last channel

  __device__ static Columns of(int across, int channels) {
    const int channel = (blockIdx.y * across + threadIdx.x % across) * VECTOR;
    return {across, channel, channel < channels};
  }

  // Calls use(offset, load(offset)) for each row of this thread; offset in elements. The loads of kBatch rows are in
  // flight together, also where `use` writes.
  template <class Load, class Use>
  __device__ void for_each_row(long long rows, int channels, Load load, Use use) const {
    constexpr int kBatch = 4;
    if (!valid) return;
    const int at_once = kRowThreads / across;
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

// Two sums over all rows. Returns true in the last block of a tile of channels, in which thread t < across * VECTOR
// gets the totals of channel blockIdx.y * across * VECTOR + t. partials: (gridDim.x, channels, 2); semaphores: one for
// each tile, 0 before and after.
template <int VECTOR>
__device__ inline bool column_sums(float (&first)[VECTOR], float (&second)[VECTOR], const Columns<VECTOR>& own,
                                   int channels, float* partials, int* semaphores, float& total, float& other) {
  constexpr int kWarps = kRowThreads / kWarp;
  __shared__ float sums[2][kWarps][kWarp * VECTOR];
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, lanes = own.across * VECTOR;
#pragma unroll
  for (int e = 0; e < VECTOR; ++e) {
    for (int distance = own.across; distance < kWarp; distance *= 2) {
      first[e] += __shfl_xor_sync(kFullMask, first[e], distance);
      second[e] += __shfl_xor_sync(kFullMask, second[e], distance);
    }
    if (lane < own.across) {
      sums[0][warp][lane * VECTOR + e] = first[e];
      sums[1][warp][lane * VECTOR + e] = second[e];
    }
  }
  __syncthreads();
  total = other = 0.0f;
  const int thread = threadIdx.x;
  if (thread < lanes) {
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      total += sums[0][w][thread];
      other += sums[1][w][thread];
    }
  }
  if (gridDim.x == 1) return true;
  const int tile = blockIdx.y * lanes;
  if (thread < lanes && tile + thread < channels) {
    float* const mine = partials + 2 * (static_cast<long long>(blockIdx.x) * channels + tile + thread);
    mine[0] = total;
    mine[1] = other;
  }
  if (!is_last_block(semaphores + blockIdx.y, gridDim.x)) return false;
  const int groups = kRowThreads / lanes, group = thread / lanes, column = thread % lanes;
  total = other = 0.0f;
  if (tile + column < channels) {
#pragma unroll 8
    for (int part = group; part < gridDim.x; part += groups) {
      const float* const from = partials + 2 * (static_cast<long long>(part) * channels + tile + column);
      total += __ldcg(from);
      other += __ldcg(from + 1);
    }
  }
  float* const scratch = &sums[0][0][0];
  __shared__ float others[kRowThreads];
  __syncthreads();
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
