// The gradient of the filters of a 3 x 3 convolution with padding 1 on tensor cores with float32 accuracy: for each tap
// a GEMM whose rows are filters, whose columns are channels, and whose K dimension is the pixels. See conv3x3_mma.cuh.
//
// The gradient d of the convolution has 32 planes, x has 16, in quads with the same geometry. A step of K has the eight
// pixels from 8 i on: lane t has pixels 0, 1, 4 and 5, then 2, 3, 6 and 7, so that the loads of four lanes from two
// quads have no bank conflict.
#pragma once

#include <warpwise/core/conv3x3.cuh>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm80/conv3x3_mma.cuh>

namespace warpwise {

constexpr int kMmaFilters = 32;

// Fills 32 planes with d of filters first_plane + p of a Source of conv3x3.cuh; planes from `count` on are zeros.
// Returns false if an element is not ordinary.
template <int THREADS, class Source>
__device__ inline bool mma_fill_windows(float* planes, const Source& source, const typename Source::Channel* channels,
                                        int first_plane, int count, const MmaBand& band) {
  constexpr int kBatch = 2;  // windows whose loads are in flight together
  const int q = threadIdx.x % 4, r0 = band.first / 2, r1 = (min(band.top + band.rows + 1, band.h) + 1) / 2;
  const int across = (band.w + 1) / 2, total = kMmaFilters / 4 * (r1 - r0) * across;
  bool ordinary = true;
  Walk at = walk(r1 - r0, across, threadIdx.x / 4, THREADS / 4);
  for (int i = threadIdx.x / 4; i < total; i += kBatch * THREADS / 4) {
    typename Source::Raw raw[kBatch];
    int quad[kBatch], r[kBatch], c[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      quad[b] = i + b * THREADS / 4 < total ? at.plane : -1;
      r[b] = r0 + at.row;
      c[b] = at.column;
      if (quad[b] >= 0 && 4 * quad[b] + q < count) raw[b] = source.load(first_plane + 4 * quad[b] + q, r[b], c[b]);
      at.advance();
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (quad[b] < 0) continue;
      float d[4] = {};
      const int plane = 4 * quad[b] + q, row = 2 * r[b] - band.top + 1;
      if (plane < count) source.finish(channels[plane], raw[b], r[b], c[b], d);
      float* const to = planes + quad[b] * band.pitch + 4 * (row * band.stride + 2 * c[b] + 1) + q;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        ordinary = ordinary && is_ordinary(d[e]);
        const int at = row + e / 2;
        if (at >= 0 && at < band.rows + 2) to[4 * (e / 2 * band.stride + e % 2)] = d[e];
      }
    }
  }
  return ordinary;
}

// The 2 x 2 windows, in order, of an image that is one band, h and w even: the index of the first pixel in the low 16
// bits, its offset in a quad in the high 16 bits.
template <int THREADS>
__device__ inline void mma_list_windows(unsigned* windows, const MmaBand& band) {
  const int across = band.w / 2;
  for (int i = threadIdx.x; i < band.h / 2 * across; i += THREADS) {
    const int row = 2 * (i / across), column = 2 * (i % across);
    windows[i] = row * band.w + column + (4 * ((row + 1) * band.stride + column + 1) << 16);
  }
}

// mma_fill_windows for such an image, in which every window is complete. Planes from `count` on are not written.
template <int THREADS, class Source>
__device__ inline bool mma_fill_whole_windows(float* planes, const Source& source,
                                              const typename Source::Channel* channels, int first_plane, int count,
                                              const MmaBand& band, const unsigned* windows) {
  constexpr int kBatch = 4;  // windows whose loads are in flight together
  const int q = threadIdx.x % 4, all = band.h / 2 * (band.w / 2);
  int quad = quotient(threadIdx.x / 4, all), window = static_cast<int>(threadIdx.x / 4) - quad * all;
  const int quad_step = quotient(THREADS / 4, all), window_step = THREADS / 4 - quad_step * all;
  bool ordinary = true;
  while (4 * quad < count) {
    typename Source::Raw raw[kBatch];
    int plane[kBatch];
    unsigned place[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      plane[b] = 4 * quad + q;
      place[b] = windows[window];
      if (plane[b] < count) raw[b] = source.load_inside(first_plane + plane[b], place[b] & 0xffff, window);
      quad += quad_step;
      window += window_step;
      if (window >= all) {
        window -= all;
        ++quad;
      }
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (plane[b] >= count) continue;
      float d[4];
      source.finish_inside(channels[plane[b]], raw[b], d);
      float* const to = planes + plane[b] / 4 * band.pitch + (place[b] >> 16) + q;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        ordinary = ordinary & is_ordinary(d[e]);
        to[4 * (e / 2 * band.stride + e % 2)] = d[e];
      }
    }
  }
  return ordinary;
}

// mma_fill_whole_windows in two parts, for up to 64 windows per plane. The constructor loads everything but y. Before
// fill(), shared memory has y of `count` planes where d is written: fill() needs only the channels and shared memory.
template <int THREADS, class Source>
struct MmaWholeWindows {
  static constexpr int kEach = kMmaFilters / 4 * 64 / (THREADS / 4);
  int plane[kEach];  // kMmaFilters or more: no window
  unsigned place[kEach];
  typename Source::Raw raw[kEach];

  // Loads all but y.
  __device__ MmaWholeWindows(const Source& source, int first_plane, int count, const MmaBand& band,
                             const unsigned* windows) {
    const int all = band.h / 2 * (band.w / 2);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = threadIdx.x / 4 + i * (THREADS / 4), quad = quotient(at, all), window = at - quad * all;
      plane[i] = 4 * quad + threadIdx.x % 4;
      if (plane[i] >= count) continue;
      place[i] = windows[window];
      source.load_pooled(raw[i], first_plane + plane[i], place[i] & 0xffff, window);
    }
  }

  // Replaces y by d. Returns false if an element is not ordinary.
  __device__ bool fill(float* planes, const Source& source, const typename Source::Channel* channels, int count,
                       const MmaBand& band) {
    bool ordinary = true;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (plane[i] >= count) continue;
      float* const to = planes + plane[i] / 4 * band.pitch + (place[i] >> 16) + threadIdx.x % 4;
      float d[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) raw[i].y[e] = to[4 * (e / 2 * band.stride + e % 2)];
      source.finish_inside(channels[plane[i]], raw[i], d);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        ordinary = ordinary & is_ordinary(d[e]);
        to[4 * (e / 2 * band.stride + e % 2)] = d[e];
      }
    }
    return ordinary;
  }
};

// The sums of dw of one of WARPS warps: five or four taps, 32 filters and eight channels. The warp index enumerates
// tiles of channels (fastest), halves of the taps, and WARPS / 4 splits of the steps of K. sums[i][tile]: tap
// first_tap() + i; a fragment's row is a filter, its column a channel.
template <int WARPS>
struct MmaWeights {
  static constexpr int kSplits = WARPS / 4, kTiles = kMmaFilters / 16, kFloats = kMmaFilters * kMmaPlanes * kMmaTaps;
  static constexpr int kTaps = (kMmaTaps + 1) / 2;  // taps of the first half
  float sums[kTaps][kTiles][4] = {};

  __device__ static int split() { return threadIdx.x / kWarp % WARPS / 4; }
  __device__ static int first_tap() { return threadIdx.x / kWarp / 2 % 2 * kTaps; }
  __device__ static int channel() { return threadIdx.x / kWarp % 2 * 8; }  // the warp's first channel

  // Adds the products of the pixels of a band.
  __device__ void add(const float* x, const float* d, const int* offsets, const MmaBand& band) {
    const int g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
    // Shared-memory addresses of this lane's first pixel for each tap, so that a load needs one addition.
    unsigned taps[kTaps];
#pragma unroll
    for (int i = 0; i < kTaps; ++i) {
      const int tap = band.tap(min(first_tap() + i, kMmaTaps - 1));
      taps[i] = shared_address(x + (channel() / 4 + g / 4) * band.pitch + g % 4 + tap);
    }
    const unsigned row = shared_address(d + g / 4 * band.pitch + g % 4 + band.tap(4)), eight_rows = 8 * band.pitch;
    for (int first = 8 * split(); first < band.pixels; first += 8 * kSplits) {
      unsigned at[2];  // bytes
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int pixel = first + t % 2 + t / 2 * 4 + 2 * i;
        at[i] = 4 * (pixel < band.pixels ? offsets[pixel] : 4 * band.w);  // d is 0 at the right border
      }
      unsigned big[kTiles][4], small[kTiles][4], from[2] = {row + at[0], row + at[1]};
#pragma unroll
      for (int i = 0; i < 2 * kTiles; ++i) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const float value = __uint_as_float(ld_shared(from[e]));
          split_tf32(value, big[i / 2][2 * e + i % 2], small[i / 2][2 * e + i % 2]);
          from[e] += eight_rows;
        }
      }
      add_taps<0, 2>(taps, at, big, small);
      add_taps<2, 2>(taps, at, big, small);
      if (first_tap() == 0) add_taps<4, 1>(taps, at, big, small);
    }
  }

  // Adds the products of a step for N taps, whose sums alternate.
  template <int FIRST, int N>
  __device__ void add_taps(const unsigned (&taps)[kTaps], const unsigned (&at)[2], const unsigned (&big)[kTiles][4],
                           const unsigned (&small)[kTiles][4]) {
    unsigned upper[N][2], lower[N][2];
#pragma unroll
    for (int i = 0; i < N; ++i) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        split_tf32(__uint_as_float(ld_shared(taps[FIRST + i] + at[e])), upper[i][e], lower[i][e]);
      }
    }
    float part[N][kTiles][4] = {};
#pragma unroll
    for (int product = 0; product < 3; ++product) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const unsigned (&b)[2] = product == 1 ? lower[i] : upper[i];
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          mma::mma_sync(part[i][tile], product == 0 ? small[tile] : big[tile], b[0], b[1], 0.0f);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[FIRST + i][tile][e] += part[i][tile][e];
      }
    }
  }

  // The same products in float32.
  __device__ void add_in_float(const float* x, const float* d, const int* offsets, const MmaBand& band) {
    const int g = threadIdx.x % kWarp / 4, column = channel() + 2 * (threadIdx.x % 4);
    const float* const from = x + column / 4 * band.pitch + column % 4;
    const float* const rows = d + g / 4 * band.pitch + g % 4 + band.tap(4);
#pragma unroll 1
    for (int i = split(); i < band.pixels; i += kSplits) {
      const int at = offsets[i];
      float a[kTiles][2];
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        a[tile][0] = rows[4 * tile * band.pitch + at];
        a[tile][1] = rows[(4 * tile + 2) * band.pitch + at];
      }
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) {
        const float* const pixel = from + at + band.tap(min(first_tap() + tap, kMmaTaps - 1));
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
          for (int e = 0; e < 4; ++e) sums[tap][tile][e] += a[tile][e / 2] * pixel[e % 2];
        }
      }
    }
  }

  // to: (filters, channels, taps), kFloats in all: assigned by the warps of split 0, added to by those of other splits.
  __device__ void store(float* to) const {
    const int row = threadIdx.x % kWarp / 4, column = channel() + 2 * (threadIdx.x % 4);
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) {
      if (first_tap() + tap >= kMmaTaps) continue;
      float* const first = to + first_tap() + tap;
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          float& sum = first[((16 * tile + e / 2 * 8 + row) * kMmaPlanes + column + e % 2) * kMmaTaps];
          sum = sums[tap][tile][e] + (split() > 0 ? sum : 0.0f);
        }
      }
    }
  }
};

}  // namespace warpwise
