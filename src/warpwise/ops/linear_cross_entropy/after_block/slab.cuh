// What pool_and_multiply and gradient_of_pooled share: the tile, its copy of the weight, and its products.
#pragma once

#include <cuda_pipeline.h>
#include <warpwise/core/numeric.cuh>
#include <warpwise/core/pack.cuh>
#include <warpwise/core/reduce.cuh>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm80/mma.cuh>
#include <warpwise/sm80/tf32.cuh>

using Quad = warpwise::Pack<float>;
using warpwise::kWarp;

constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr int kRows = 16, kChannels = 2, kUnits = 128, kClasses = 16;  // images, channels and hidden units of a tile
constexpr int kTiles = kUnits / 8 / kWarps;                            // tiles of 16 x 8 sums per warp
constexpr int kPitchOfUnits = kUnits + 4;
constexpr int kLossRows = 2;  // rows of a block, one for each warp

// The columns of a tile: `count` channels of `plane` windows each, and a few columns more at either side, so that the
// first column is a multiple of four and the number of columns, in `tiles` of eight, one of eight.
struct Slab {
  int channel, count, plane, begin, skipped, tiles;
  __device__ Slab(int channel, int channels, int plane) : channel(channel), plane(plane) {
    count = min(kChannels, channels - channel);
    begin = channel * plane / 4 * 4;
    skipped = channel * plane - begin;
    tiles = (skipped + count * plane + 7) / 8;
  }
  // The channel of a column, counted from `channel`, or -1.
  __device__ int channel_of(int column) const {
    const int at = column - skipped;
    return at < 0 || at >= count * plane ? -1 : at >= plane ? 1 : 0;
  }
};
static_assert(kChannels == 2, "channel_of tells two channels apart");

// Copies `columns` columns of w1: (units, features) to shared memory as (kUnits, pitch); zeros past an edge.
__device__ inline void copy_weights(float* to, const float* w1, int begin, int columns, int units, int features,
                                    int pitch) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
#pragma unroll 1
  for (int column = 4 * lane; column < columns; column += 4 * kWarp) {
    const int last = begin + column < features ? units : 0;
    const float* from = w1 + static_cast<long long>(warp) * features + (last > 0 ? begin + column : 0);
    unsigned target = warpwise::shared_address(to + warp * pitch + column);
#pragma unroll 4
    for (int unit = warp; unit < kUnits; unit += kWarps) {
      warpwise::mma::cp_async<16>(target, unit < last ? from : w1, unit < last);
      target += 4 * kWarps * pitch;
      from += kWarps * features;
    }
  }
  __pipeline_commit();
}

// sums: kTiles tiles of 16 x 8, in the layout of sm80/mma.cuh, += a: (16, pitch_a) times b, in shared memory, for
// `steps` steps of eight k. b is (8 kTiles, pitch_b) if K_MAJOR, else (k, pitch_b). Three TF32 products for each
// float32 product; tensor cores truncate, so they add 48 products at most. An infinity, or a number that overflows in
// TF32, gives a sum that is not finite: the warp then computes its sums in float32.
template <bool K_MAJOR>
__device__ inline void multiply(float (&sums)[kTiles][4], const float* a, int pitch_a, const float* b, int pitch_b,
                                int steps) {
  const int g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
  const float* const rows = a + g * pitch_a + t;
  const float* const columns = K_MAJOR ? b + g * pitch_b + t : b + t * pitch_b + g;
  const int to_half = K_MAJOR ? 4 : 4 * pitch_b, to_tile = K_MAJOR ? 8 * pitch_b : 8;
#pragma unroll 1
  for (int first = 0; first < steps; first += 2) {
    float part[kTiles][4] = {};
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      if (first + s >= steps) break;
      const float *const from_a = rows + 8 * (first + s), *const from_b = columns + 2 * to_half * (first + s);
      unsigned big[4], small[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) warpwise::split_tf32(from_a[e % 2 * 8 * pitch_a + e / 2 * 4], big[e], small[e]);
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        unsigned of_b[2], small_b[2];
#pragma unroll
        for (int half = 0; half < 2; ++half)
          warpwise::split_tf32(from_b[tile * to_tile + half * to_half], of_b[half], small_b[half]);
        warpwise::mma::mma_sync(part[tile], small, of_b[0], of_b[1], float());
        warpwise::mma::mma_sync(part[tile], big, small_b[0], small_b[1], float());
        warpwise::mma::mma_sync(part[tile], big, of_b[0], of_b[1], float());
      }
    }
#pragma unroll
    for (int e = 0; e < 4 * kTiles; ++e) sums[e / 4][e % 4] += part[e / 4][e % 4];
  }
  bool finite = true;
#pragma unroll
  for (int e = 0; e < 4 * kTiles; ++e) finite = finite && fabsf(sums[e / 4][e % 4]) < 3.4e38f;
  if (__all_sync(warpwise::kFullMask, finite)) return;
#pragma unroll
  for (int e = 0; e < 4 * kTiles; ++e) sums[e / 4][e % 4] = 0.0f;
#pragma unroll 1
  for (int k = 0; k < 8 * steps; ++k) {
#pragma unroll
    for (int e = 0; e < 4 * kTiles; ++e) {
      const int row = g + e % 4 / 2 * 8, column = 2 * t + e % 2 + 8 * (e / 4);
      sums[e / 4][e % 4] += a[row * pitch_a + k] * (K_MAJOR ? b[column * pitch_b + k] : b[k * pitch_b + column]);
    }
  }
}

struct Channel {
  float mean, scale, shift;
};

// The statistics of a channel from partials: (parts, 3), sums, squared distances and numbers; all lanes of a warp.
__device__ inline void combine(const float* partials, int parts, float& mean, float& var) {
  const int lane = threadIdx.x % kWarp;
  float sum = 0.0f, count = 0.0f, squares = 0.0f;
#pragma unroll 1
  for (int p = lane; p < parts; p += kWarp) {
    sum += partials[3 * p];
    count += partials[3 * p + 2];
  }
  count = warpwise::warp_reduce<warpwise::Sum>(count);
  mean = warpwise::warp_reduce<warpwise::Sum>(sum) / count;
#pragma unroll 1
  for (int p = lane; p < parts; p += kWarp) {
    const float size = partials[3 * p + 2], distance = partials[3 * p] / fmaxf(size, 1.0f) - mean;
    squares += partials[3 * p + 1] + size * distance * distance;
  }
  var = warpwise::warp_reduce<warpwise::Sum>(squares) / count;
}
