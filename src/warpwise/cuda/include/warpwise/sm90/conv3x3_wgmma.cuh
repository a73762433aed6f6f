// 3 x 3 convolutions with padding 1 by wgmma with float32 accuracy: an implicit GEMM whose rows are pixels, in
// registers, and whose columns are 32 filters, in shared memory. The planes, their layout and 3xTF32 are those of
// sm80/conv3x3_mma.cuh. sm_90a only.
#pragma once

#include <warpwise/sm80/conv3x3_mma.cuh>
#include <warpwise/sm90/wgmma.cuh>

namespace warpwise {

constexpr int kWgmmaFilters = 32, kWgmmaPixels = 64, kWarpgroup = 128;

// The big and the small parts of 32 filters for a chunk of K, each an operand B of wgmma: rows of 32 elements of K, in
// units of 8 rows with the 128-byte swizzle. K is (tap, step, plane of the step).
struct WgmmaFilters {
  static constexpr int kUnit = 32 * kWgmmaFilters;  // floats: 32 elements of K, two taps
  static constexpr int kPart = (kMmaTaps * kMmaPlanes + 31) / 32 * kUnit, kFloats = 2 * kPart;

  __device__ static int index(int filter, int plane, int tap) {
    const int chunk = tap % 2 * 4 + plane % 4;  // 16 bytes of K in a row
    return tap / 2 * kUnit + filter * 32 + (chunk ^ filter % 8) * 4 + plane / 4;
  }
  __device__ static float value(const float* filters, int at) { return filters[at] + filters[kPart + at]; }

  // Fills them from f: (k, c, 3, 3). Returns false if an element is not ordinary; it is stored without splitting it. A
  // thread loads the nine taps of one plane of a filter. TRANSPOSED: f is (c, k, 3, 3), and the taps are reversed.
  template <int THREADS, bool TRANSPOSED = false>
  __device__ static bool fill(float* to, const float* f, int first_filter, int first_channel, int k, int c) {
    static_assert(THREADS == kWgmmaFilters * kMmaPlanes, "a thread has a plane of a filter");
    const int filter = threadIdx.x / kMmaPlanes, plane = threadIdx.x % kMmaPlanes;
    const bool exists = first_filter + filter < k && first_channel + plane < c;
    const int row = TRANSPOSED ? first_channel + plane : first_filter + filter;
    const int column = TRANSPOSED ? first_filter + filter : first_channel + plane;
    const float* const from = f + (static_cast<long long>(row) * (TRANSPOSED ? k : c) + column) * kMmaTaps;
    float values[kMmaTaps];
#pragma unroll
    for (int tap = 0; tap < kMmaTaps; ++tap) values[tap] = exists ? from[TRANSPOSED ? kMmaTaps - 1 - tap : tap] : 0.0f;
    bool ordinary = true;
#pragma unroll
    for (int tap = 0; tap < kMmaTaps; ++tap) {
      const int at = index(filter, plane, tap);
      unsigned big, small;
      split_tf32(values[tap], big, small);
      const bool splits = is_ordinary(values[tap]);
      to[at] = splits ? __uint_as_float(big) : values[tap];
      to[kPart + at] = splits ? __uint_as_float(small) : 0.0f;
      ordinary = ordinary & splits;
    }
    return ordinary;
  }
};

// The pixels of a lane in a tile of 64: rows lane / 4 and lane / 4 + 8 of the warp's 16.
__device__ inline int wgmma_pixel(int tile) {
  return tile * kWgmmaPixels + static_cast<int>(threadIdx.x) % kWarpgroup / kWarp * 16 +
         static_cast<int>(threadIdx.x) % kWarp / 4;
}

// sums += the products of a tile's pixels and the filters, for a chunk of K. at: the offsets of this lane's two pixels
// in `planes`. Tensor cores round sums toward zero: a tap's products, of which those with small parts come first, are
// added to float32 registers, so that no more than 16 large products are added by a tensor core.
__device__ inline void wgmma_add_chunk(float (&sums)[16], const float* filters, const float* planes, const int (&at)[2],
                                       const MmaBand& band) {
  const float* const from = planes + threadIdx.x % 4 * band.pitch;
  const unsigned address = shared_address(filters);
#pragma unroll
  for (int tap = 0; tap < kMmaTaps; ++tap) {
    unsigned big[kMmaSteps][4], small[kMmaSteps][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const Pack<float> pixel = *packs(from + at[i] + band.tap(tap));
#pragma unroll
      for (int e = 0; e < 4; ++e) split_tf32(pixel.at[e], big[e / 2][e % 2 * 2 + i], small[e / 2][e % 2 * 2 + i]);
    }
    float part[16];
    const auto descriptor = [&](int step, int part_of_filters) {
      const unsigned k = address + 4 * (tap / 2 * WgmmaFilters::kUnit) + tap % 2 * 64 + step * 32;
      return sm90::matrix_descriptor(k + 4 * part_of_filters * WgmmaFilters::kPart, 16, 1024);
    };
    sm90::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kMmaSteps; ++step) {
      sm90::wgmma_rs<kWgmmaFilters>(part, small[step], descriptor(step, 0), step > 0);
      sm90::wgmma_rs<kWgmmaFilters>(part, big[step], descriptor(step, 1), true);
    }
#pragma unroll
    for (int step = 0; step < kMmaSteps; ++step) {
      sm90::wgmma_rs<kWgmmaFilters>(part, big[step], descriptor(step, 0), true);
    }
    sm90::wgmma_commit_group();
    sm90::wgmma_wait_group<0>();  // the other warpgroups of the block multiply meanwhile
    sm90::warpgroup_fence_operand(part);
#pragma unroll
    for (int i = 0; i < 16; ++i) sums[i] += part[i];
  }
}

// The same sums in float32.
__device__ inline void wgmma_add_chunk_in_float(float (&sums)[16], const float* filters, const float* planes,
                                                const int (&at)[2], const MmaBand& band) {
#pragma unroll 1
  for (int tap = 0; tap < kMmaTaps; ++tap) {
#pragma unroll 1
    for (int plane = 0; plane < kMmaPlanes; ++plane) {
      const float* const from = planes + plane / 4 * band.pitch + band.tap(tap) + plane % 4;
      const float values[2] = {from[at[0]], from[at[1]]};
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const int column = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
        sums[i] += WgmmaFilters::value(filters, WgmmaFilters::index(column, plane, tap)) * values[i / 2 % 2];
      }
    }
  }
}

// Stores the sums of 32 planes from `first_plane` on to an image of y: (n, planes, h, w). The lane has pixels `pixel`
// and `pixel` + 8 of the band, where they exist.
__device__ inline void wgmma_store_planes(float* y, const float (&sums)[16], int image, int first_plane, int planes,
                                          int lane, int pixel, const bool (&exists)[2], const MmaBand& band) {
  const int first = first_plane + lane % 4 * 2;  // columns 8 j + 2 (lane % 4) + e of D are values 2 j + e
  float* to = y + (static_cast<long long>(image) * planes + first) * band.h * band.w + band.top * band.w + pixel;
#pragma unroll
  for (int value = 0; value < 8; ++value) {
    if (first + value / 2 * 8 + value % 2 < planes) {
      if (exists[0]) to[0] = sums[value / 2 * 4 + value % 2];
      if (exists[1]) to[8] = sums[value / 2 * 4 + 2 + value % 2];
    }
    to += value % 2 == 0 ? band.h * band.w : 7 * band.h * band.w;
  }
}

}  // namespace warpwise
