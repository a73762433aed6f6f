// 3 x 3 convolutions with padding 1 by wgmma, accurate to float32: an implicit GEMM whose rows are pixels, in
// registers, and whose columns are 32 filters, in shared memory. The planes, their layout and 3xTF32 are those of
// sm80/conv3x3_mma.cuh. sm_90a only.
#pragma once

#include <warpwise/sm80/conv3x3_mma.cuh>
#include <warpwise/sm90/wgmma.cuh>

namespace warpwise {

constexpr int kWgmmaFilters = 32, kWgmmaPixels = 64, kWarpgroup = 128;

// The offset of (row, k) in an operand B of wgmma of ROWS rows: units of 32 elements of K, in which 8 rows of 128 bytes
// have the 128-byte swizzle.
template <int ROWS>
__device__ inline int wgmma_offset(int row, int k) {
  return k / 32 * 32 * ROWS + row * 32 + (k % 32 / 4 ^ row % 8) * 4 + k % 4;
}

// The big and the small parts of COLUMNS filters for a chunk of K, each an operand B of wgmma. K is (tap, step, plane
// of the step).
template <int COLUMNS>
struct WgmmaFilters {
  static constexpr int kPart = (kMmaTaps * kMmaPlanes + 31) / 32 * 32 * COLUMNS, kFloats = 2 * kPart;

  __device__ static int index(int column, int plane, int tap) {
    return wgmma_offset<COLUMNS>(column, tap * kMmaPlanes + plane % 4 * 4 + plane / 4);
  }
  __device__ static float value(const float* filters, int at) { return filters[at] + filters[kPart + at]; }

  // Stores a value that split_tf32 divides; another value as it is, for multiplications in float32.
  __device__ static bool store(float* to, int at, float value) {
    unsigned big, small;
    split_tf32(value, big, small);
    const bool splits = is_ordinary(value);
    to[at] = splits ? __uint_as_float(big) : value;
    to[kPart + at] = splits ? __uint_as_float(small) : 0.0f;
    return splits;
  }

  // Fills CHUNKS chunks from f: (k, c, 3, 3). Columns are filters and planes channels; TRANSPOSED: columns are
  // channels, planes filters, and the taps are reversed. Returns false if an element is not ordinary. Lanes have four
  // adjacent elements of four quads of planes, of two columns or planes: 16 banks.
  template <int THREADS, int CHUNKS, bool TRANSPOSED>
  __device__ static bool fill(float* to, const float* f, int first_filter, int first_channel, int k, int c) {
    constexpr int kWarps = THREADS / kWarp, kChunk = COLUMNS / 2 * 9, kItems = CHUNKS * kChunk;
    constexpr int kLoads = kItems / kWarps;
    static_assert(kItems % kWarps == 0, "every warp has as many items");
    const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, t = lane / 4 % 4;
    const auto place = [&](int load, int& chunk, int& column, int& plane, int& tap) {
      const int item = warp + load * kWarps, i = item % kChunk;
      chunk = item / kChunk;
      if (TRANSPOSED) {
        const int e = i % (kChunk / 2) * 4 + lane % 4;
        plane = 4 * t + i / (kChunk / 2) * 2 + lane / 16;
        column = e / kMmaTaps;
        tap = e % kMmaTaps;
      } else {
        const int e = t * 36 + i % 9 * 4 + lane % 4;
        column = i / 9 * 2 + lane / 16;
        plane = e / kMmaTaps;
        tap = e % kMmaTaps;
      }
    };
    float values[kLoads];
    bool ordinary = true;
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      int chunk, column, plane, tap;
      place(load, chunk, column, plane, tap);
      const int filter = first_filter + (TRANSPOSED ? chunk * kMmaPlanes + plane : column);
      const int channel = first_channel + (TRANSPOSED ? column : chunk * kMmaPlanes + plane);
      values[load] =
          filter < k && channel < c ? f[(static_cast<long long>(filter) * c + channel) * kMmaTaps + tap] : 0.0f;
    }
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      int chunk, column, plane, tap;
      place(load, chunk, column, plane, tap);
      const int at = index(column, plane, TRANSPOSED ? kMmaTaps - 1 - tap : tap);
      ordinary = store(to + chunk * kFloats, at, values[load]) && ordinary;
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
// in `planes`. Products of small parts have sums of their own: tensor cores truncate, and these sums stay small.
template <int COLUMNS>
__device__ inline void wgmma_add_chunk(float (&sums)[COLUMNS / 2], const float* filters, const float* planes,
                                       const int (&at)[2], const MmaBand& band) {
  const float* const from = planes + threadIdx.x % 4 * band.pitch;
  const unsigned address = shared_address(filters);
  float main[COLUMNS / 2], cross[COLUMNS / 2];
  unsigned big[2][kMmaSteps][4], small[2][kMmaSteps][4];
  Pack<float> pixels[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) pixels[i] = *packs(from + at[i]);
#pragma unroll
  for (int tap = 0; tap < kMmaTaps; ++tap) {
    if (tap > 1) sm90::wgmma_wait_group<1>();  // the fragments of tap - 2 are free
    unsigned (&b)[kMmaSteps][4] = big[tap % 2], (&s)[kMmaSteps][4] = small[tap % 2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) split_tf32(pixels[i].at[e], b[e / 2][e % 2 * 2 + i], s[e / 2][e % 2 * 2 + i]);
      if (tap + 1 < kMmaTaps) pixels[i] = *packs(from + at[i] + band.tap(tap + 1));
    }
    sm90::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kMmaSteps; ++step) {
      const unsigned k = address + tap / 2 * (128 * COLUMNS) + tap % 2 * 64 + step * 32;
      const unsigned long long upper = sm90::matrix_descriptor(k, 16, 1024);
      const unsigned long long lower = sm90::matrix_descriptor(k + 4 * WgmmaFilters<COLUMNS>::kPart, 16, 1024);
      sm90::wgmma_rs<COLUMNS>(cross, s[step], upper, tap + step > 0);
      sm90::wgmma_rs<COLUMNS>(main, b[step], upper, tap + step > 0);
      sm90::wgmma_rs<COLUMNS>(cross, b[step], lower, true);
    }
    sm90::wgmma_commit_group();
  }
  sm90::wgmma_wait_group<0>();
  sm90::warpgroup_fence_operand(main);
  sm90::warpgroup_fence_operand(cross);
#pragma unroll
  for (int i = 0; i < COLUMNS / 2; ++i) sums[i] += main[i] + cross[i];
}

// The same sums in float32.
template <int COLUMNS>
__device__ inline void wgmma_add_chunk_in_float(float (&sums)[COLUMNS / 2], const float* filters, const float* planes,
                                                const int (&at)[2], const MmaBand& band) {
  using Filters = WgmmaFilters<COLUMNS>;
#pragma unroll 1
  for (int tap = 0; tap < kMmaTaps; ++tap) {
#pragma unroll 1
    for (int plane = 0; plane < kMmaPlanes; ++plane) {
      const float* const from = planes + plane / 4 * band.pitch + band.tap(tap) + plane % 4;
      const float values[2] = {from[at[0]], from[at[1]]};
#pragma unroll
      for (int i = 0; i < COLUMNS / 2; ++i) {
        const int column = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
        sums[i] += Filters::value(filters, Filters::index(column, plane, tap)) * values[i / 2 % 2];
      }
    }
  }
}

}  // namespace warpwise
