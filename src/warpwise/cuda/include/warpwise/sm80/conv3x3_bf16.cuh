// 3 x 3 convolutions with padding 1 on tensor cores with float32 accuracy: each number is split into three bfloat16.
//
// x = big + middle + small, each rounded to nearest to 8 significant bits; x is their sum exactly. Six of the nine
// products are computed; those omitted are below 2^-26 |x y|. mma.sync of bfloat16 multiplies twice as many elements as
// that of TF32 in the same time, and conv3x3_mma.cuh computes three products, so the tensor cores take the same time.
// But a number is split only once, when it is stored, and ldmatrix loads the parts of four 8 x 8 matrices, so there
// are only a third of the other instructions. Each sum of at most 96 products begins with those of small parts, as
// tensor cores round toward zero, and is added to float32 registers.
//
// Planes in shared memory are rows of positions (row * stride + column, stride = w + 2), each with the three parts of
// all planes. An element that is not below kOrdinary is stored as its bits, the upper half in place of the big part,
// the lower half in place of the middle one, and kBfBits: a block with such an element multiplies in float32.
#pragma once

#include <cuda_bf16.h>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm80/conv3x3_mma_weights.cuh>

namespace warpwise {

constexpr int kBfParts = 3;
constexpr unsigned kBfBits = 0x7fff;  // NaN, which is not the small part of an ordinary number

// The parts of `first` and `second` in the lower and the upper halves. Returns false if either is not ordinary.
__device__ inline bool split_bfloat16(unsigned (&parts)[kBfParts], float first, float second) {
  float rest[2] = {first, second};
#pragma unroll
  for (int part = 0; part < kBfParts; ++part) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(rest[0], rest[1]);
    parts[part] = *reinterpret_cast<const unsigned*>(&pair);
    rest[0] -= __uint_as_float(parts[part] << 16);
    rest[1] -= __uint_as_float(parts[part] & 0xffff0000u);
  }
  if (is_ordinary(first) && is_ordinary(second)) return true;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (is_ordinary(i ? second : first)) continue;
    const unsigned bits = __float_as_uint(i ? second : first), kept = i ? 0x0000ffffu : 0xffff0000u;
    parts[0] = (parts[0] & kept) | (i ? bits & 0xffff0000u : bits >> 16);
    parts[1] = (parts[1] & kept) | (i ? bits << 16 : bits & 0x0000ffffu);
    parts[2] = (parts[2] & kept) | kBfBits << 16 * i;
  }
  return false;
}

// The float32 number with these parts.
__device__ inline float join_bfloat16(unsigned big, unsigned middle, unsigned small) {
  if (small == kBfBits) return __uint_as_float(big << 16 | middle);
  return __uint_as_float(big << 16) + (__uint_as_float(middle << 16) + __uint_as_float(small << 16));
}

// A position of PLANES planes: 16 bytes more than its parts, so that the rows that ldmatrix reads, those of eight
// adjacent positions, have distinct banks.
template <int PLANES>
struct BfPlanes {
  static constexpr int kPart = 2 * PLANES, kPitch = kBfParts * kPart + 16;  // bytes

  __device__ static bool store(unsigned char* position, int plane, float first, float second) {
    unsigned parts[kBfParts];
    const bool ordinary = split_bfloat16(parts, first, second);
#pragma unroll
    for (int part = 0; part < kBfParts; ++part)
      *reinterpret_cast<unsigned*>(position + part * kPart + 2 * plane) = parts[part];
    return ordinary;
  }
  __device__ static float value(const unsigned char* position, int plane) {
    const auto* const from = reinterpret_cast<const unsigned short*>(position) + plane;
    return join_bfloat16(from[0], from[PLANES], from[2 * PLANES]);
  }
};
using BfGradient = BfPlanes<kMmaFilters>;  // d
using BfImage = BfPlanes<kMmaPlanes>;      // x

// Six products, those of small parts first: the parts of A and of B.
constexpr int kBfProducts = 6;
__device__ constexpr int bf_part_a(int product) {
  return product == 0 ? 2 : product == 1 ? 0 : product == 2 ? 1 : product == 3;
}
__device__ constexpr int bf_part_b(int product) {
  return product == 0 ? 0 : product == 1 ? 2 : product == 2 ? 1 : product == 4;
}

// The transposed filters as A of dx: rows are 16 channels, K is 32 filters in two steps, taps are reversed. Fragments:
// (tap, step, part, lane, 16 bytes).
struct BfFilters {
  static constexpr int kSteps = 2, kTap = kSteps * kBfParts * 512, kBytes = kMmaTaps * kTap;

  // The index of part 0 of channel `row` for the pair of `filter` and filter + 1.
  __device__ static int index(int row, int filter, int tap) {
    const int lane = row % 8 * 4 + filter % 8 / 2, word = row / 8 + 2 * (filter / 8 % 2);
    return tap * kTap + filter / 16 * kBfParts * 512 + 16 * lane + 4 * word + 2 * (filter % 2);
  }
  __device__ static float value(const unsigned char* filters, int row, int filter, int tap) {
    const unsigned char* const from = filters + index(row, filter, tap);
    const auto part = [&](int i) { return *reinterpret_cast<const unsigned short*>(from + 512 * i); };
    return join_bfloat16(part(0), part(1), part(2));
  }

  // The elements of f: (k, c, 3, 3) from `first_channel` on in registers. A warp loads pairs of filters.
  template <int THREADS>
  struct Loaded {
    static constexpr int kWarps = THREADS / kWarp, kPairs = kMmaFilters / 2 / kWarps;
    static constexpr int kLoads = (kMmaPlanes * kMmaTaps + kWarp - 1) / kWarp;
    float values[kPairs][2][kLoads];

    __device__ Loaded(const float* f, int first_channel, int k, int c) {
      const int valid = min(kMmaPlanes, c - first_channel) * kMmaTaps;
#pragma unroll
      for (int i = 0; i < 2 * kPairs; ++i) {
        const int filter = 2 * (static_cast<int>(threadIdx.x) / kWarp + i / 2 * kWarps) + i % 2;
        const float* const from = f + (static_cast<long long>(filter) * c + first_channel) * kMmaTaps;
#pragma unroll
        for (int load = 0; load < kLoads; ++load) {
          const int e = load * kWarp + threadIdx.x % kWarp;
          values[i / 2][i % 2][load] = filter < k && e < valid ? from[e] : 0.0f;
        }
      }
    }
    // Returns false if an element is not ordinary.
    __device__ bool store(unsigned char* to) const {
      bool ordinary = true;
#pragma unroll
      for (int load = 0; load < kLoads; ++load) {
        const int e = load * kWarp + threadIdx.x % kWarp, row = e / kMmaTaps, tap = e - row * kMmaTaps;
        if (row >= kMmaPlanes) continue;
#pragma unroll
        for (int i = 0; i < kPairs; ++i) {
          unsigned parts[kBfParts];
          ordinary = split_bfloat16(parts, values[i][0][load], values[i][1][load]) & ordinary;
          const int pair = threadIdx.x / kWarp + i * kWarps;
#pragma unroll
          for (int part = 0; part < kBfParts; ++part)
            *reinterpret_cast<unsigned*>(to + index(row, 2 * pair, kMmaTaps - 1 - tap) + 512 * part) = parts[part];
        }
      }
      return ordinary;
    }
  };
};

// sums[j] += a tap's products for N adjacent n-tiles from FIRST on; from[j]: the address of this lane's row for
// ldmatrix.
template <int FIRST, int N, int COUNT>
__device__ inline void bf_add_pixels(float (&sums)[COUNT][1][4], const unsigned (&a)[BfFilters::kSteps][kBfParts][4],
                                     const unsigned (&from)[COUNT], int tap) {
  unsigned b[N][kBfParts][4];
#pragma unroll
  for (int i = 0; i < N; ++i) {
#pragma unroll
    for (int part = 0; part < kBfParts; ++part)
      ldmatrix_x4(b[i][part], from[FIRST + i] + tap + part * BfGradient::kPart);
  }
  float added[N][BfFilters::kSteps][4] = {};
#pragma unroll
  for (int product = 0; product < kBfProducts; ++product) {
#pragma unroll
    for (int step = 0; step < BfFilters::kSteps; ++step) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const unsigned (&of_b)[4] = b[i][bf_part_b(product)];
        mma::mma_sync(added[i][step], a[step][bf_part_a(product)], of_b[2 * step], of_b[2 * step + 1], __nv_bfloat16());
      }
    }
  }
#pragma unroll
  for (int i = 0; i < N; ++i) {
#pragma unroll
    for (int e = 0; e < 4; ++e) sums[FIRST + i][0][e] += added[i][0][e] + added[i][1][e];
  }
}

template <int FIRST, int COUNT>
__device__ inline void bf_add_all_pixels(float (&sums)[COUNT][1][4],
                                         const unsigned (&a)[BfFilters::kSteps][kBfParts][4],
                                         const unsigned (&from)[COUNT], int tap, bool last) {
  constexpr int kAtOnce = COUNT > 4 ? 1 : 2, kLeft = COUNT - FIRST;  // two, if the registers suffice
  if constexpr (kLeft > kAtOnce) {
    bf_add_pixels<FIRST, kAtOnce>(sums, a, from, tap);
    bf_add_all_pixels<FIRST + kAtOnce>(sums, a, from, tap, last);
  } else if (last) {
    bf_add_pixels<FIRST, kLeft>(sums, a, from, tap);
  } else if constexpr (kLeft > 1) {
    bf_add_pixels<FIRST, kLeft - 1>(sums, a, from, tap);
  }
}

// sums[j] += the filters times d at the pixels of n-tile j, from pixel 8 (warp + WARPS j) on: dx of an image.
template <int WARPS, int COUNT>
__device__ inline void bf_add_input(float (&sums)[COUNT][1][4], const unsigned char* filters, const unsigned char* d,
                                    const int* offsets, const MmaBand& band) {
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int count = max(0, ((band.pixels + 7) / 8 - warp + WARPS - 1) / WARPS);
  const unsigned first = shared_address(d) + lane / 8 * 16, of_a = shared_address(filters) + 16 * lane;
  unsigned from[COUNT];
#pragma unroll
  for (int j = 0; j < COUNT; ++j) {
    from[j] = first + offsets[min(8 * (warp + WARPS * j) + lane % 8, band.pixels - 1)] / 4 * BfGradient::kPitch;
  }
#pragma unroll 1
  for (int tap = 0; tap < kMmaTaps; ++tap) {
    unsigned a[BfFilters::kSteps][kBfParts][4];
#pragma unroll
    for (int i = 0; i < BfFilters::kSteps * kBfParts; ++i)
      ld_shared_v4(a[i / kBfParts][i % kBfParts], of_a + tap * BfFilters::kTap + 512 * i);
    bf_add_all_pixels<0>(sums, a, from, band.tap(tap) / 4 * BfGradient::kPitch, count == COUNT);
  }
}

// The same in float32.
template <int WARPS, int COUNT>
__device__ inline void bf_add_input_in_float(float (&sums)[COUNT][1][4], const unsigned char* filters,
                                             const unsigned char* d, const int* offsets, const MmaBand& band) {
#pragma unroll 1
  for (int tap = 0; tap < kMmaTaps; ++tap) {
#pragma unroll 1
    for (int filter = 0; filter < kMmaFilters; ++filter) {
#pragma unroll
      for (int j = 0; j < COUNT; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int pixel = min(MmaPixels<WARPS, COUNT>::pixel(j) + e % 2, band.pixels - 1);
          const int position = (offsets[pixel] + band.tap(tap)) / 4, row = e / 2 * 8 + threadIdx.x % kWarp / 4;
          sums[j][0][e] += BfFilters::value(filters, row, filter, tap) *
                           BfGradient::value(d + position * BfGradient::kPitch, filter);
        }
      }
    }
  }
}

// The sums of dw of one of WARPS warps: 16 filters, 16 channels, five or four taps. The warp index enumerates halves of
// the filters (fastest), halves of the taps, and WARPS / 4 splits of the steps of 16 pixels. sums[i][n] belongs to tap
// first_tap() + i and to channels 8 n and following; a fragment's row is a filter, its column a channel.
template <int WARPS>
struct BfWeights {
  static constexpr int kSplits = WARPS / 4, kStep = 16, kTaps = (kMmaTaps + 1) / 2;
  static constexpr int kFloats = kMmaFilters * kMmaPlanes * kMmaTaps;
  float sums[kTaps][2][4] = {};

  __device__ static int split() { return threadIdx.x / kWarp % WARPS / 4; }
  __device__ static int first_tap() { return threadIdx.x / kWarp / 2 % 2 * kTaps; }
  __device__ static int filter() { return threadIdx.x / kWarp % 2 * 16; }  // the warp's first

  // Adds the products of the pixels of a band.
  __device__ void add(const unsigned char* x, const unsigned char* d, const int* offsets, const MmaBand& band) {
    const int lane = threadIdx.x % kWarp;
    const unsigned of_d = shared_address(d) + 2 * filter() + lane / 16 * 16 + band.tap(4) / 4 * BfGradient::kPitch;
    const unsigned of_x = shared_address(x) + lane / 16 * 16;
    int taps[kTaps];
#pragma unroll
    for (int i = 0; i < kTaps; ++i) taps[i] = band.tap(min(first_tap() + i, kMmaTaps - 1)) / 4 * BfImage::kPitch;
#pragma unroll 1
    for (int first = kStep * split(); first < band.pixels; first += kStep * kSplits) {
      const int pixel = first + lane % 16,
                at = (pixel < band.pixels ? offsets[pixel] : 4 * band.w) / 4;  // d is 0 there
      unsigned a[kBfParts][4];
#pragma unroll
      for (int part = 0; part < kBfParts; ++part) {
        unsigned loaded[4];
        ldmatrix_x4_trans(loaded, of_d + at * BfGradient::kPitch + part * BfGradient::kPart);
        a[part][0] = loaded[0];
        a[part][1] = loaded[2];
        a[part][2] = loaded[1];
        a[part][3] = loaded[3];
      }
      const unsigned from = of_x + at * BfImage::kPitch;
#pragma unroll
      for (int i = 0; i < kTaps; ++i) {
        if (i + 1 < kTaps || first_tap() == 0) add_tap(sums[i], from + taps[i], a);
      }
    }
  }

  // Adds the products of a tap. Each mma.sync waits for the sum of the one before; the other warps of the SM
  // sub-partition multiply meanwhile.
  __device__ static void add_tap(float (&sums)[2][4], unsigned from, const unsigned (&a)[kBfParts][4]) {
    unsigned b[kBfParts][4];
#pragma unroll
    for (int part = 0; part < kBfParts; ++part) ldmatrix_x4_trans(b[part], from + part * BfImage::kPart);
    float added[2][4] = {};
#pragma unroll
    for (int product = 0; product < kBfProducts; ++product) {
      const unsigned (&of_b)[4] = b[bf_part_b(product)];
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        mma::mma_sync(added[n], a[bf_part_a(product)], of_b[2 * n], of_b[2 * n + 1], __nv_bfloat16());
      }
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) sums[e / 4][e % 4] += added[e / 4][e % 4];
  }

  // The same products in float32.
  __device__ void add_in_float(const unsigned char* x, const unsigned char* d, const int* offsets,
                               const MmaBand& band) {
    const int row = filter() + threadIdx.x % kWarp / 4, column = 2 * (threadIdx.x % 4);
#pragma unroll 1
    for (int i = split(); i < band.pixels; i += kSplits) {
      const unsigned char* const gradient = d + (offsets[i] + band.tap(4)) / 4 * BfGradient::kPitch;
      const float rows[2] = {BfGradient::value(gradient, row), BfGradient::value(gradient, row + 8)};
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) {
        const int position = (offsets[i] + band.tap(min(first_tap() + tap, kMmaTaps - 1))) / 4;
        const unsigned char* const pixel = x + position * BfImage::kPitch;
#pragma unroll
        for (int e = 0; e < 8; ++e)
          sums[tap][e / 4][e % 4] += rows[e / 2 % 2] * BfImage::value(pixel, column + e / 4 * 8 + e % 2);
      }
    }
  }

  // to: (filters, channels, taps), kFloats in all: assigned by the warps of split 0, added to by those of other splits.
  __device__ void store(float* to) const {
    const int row = filter() + threadIdx.x % kWarp / 4, column = 2 * (threadIdx.x % 4);
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) {
      if (first_tap() + tap >= kMmaTaps) continue;
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const int filter = row + e / 2 % 2 * 8, channel = column + e / 4 * 8 + e % 2;
        float& sum = to[(filter * kMmaPlanes + channel) * kMmaTaps + first_tap() + tap];
        sum = sums[tap][e / 4][e % 4] + (split() > 0 ? sum : 0.0f);
      }
    }
  }
};

}  // namespace warpwise
