// The gradient of the filters of a 3 x 3 convolution with padding 1 by wgmma, accurate to float32: a matrix product
// whose rows are (tap, channel), in registers, whose columns are 32 filters, in shared memory, and whose K is the
// pixels of a band. See conv3x3_wgmma.cuh. sm_90a only.
#pragma once

#include <warpwise/core/conv3x3.cuh>
#include <warpwise/sm90/conv3x3_wgmma.cuh>

namespace warpwise {

// The place in K of a pixel: of eight, 0, 1, 4 and 5 come first, so that the loads of four lanes from two quads of
// planes have no bank conflict.
__device__ inline int wgmma_k_of(int pixel) {
  return pixel / 8 * 8 + pixel % 2 + pixel / 4 % 2 * 2 + pixel / 2 % 2 * 4;
}
__device__ inline int wgmma_pixel_of(int k) { return k / 8 * 8 + k % 2 + k / 2 % 2 * 4 + k / 4 % 2 * 2; }

// Floats of a part of d as operand B: 32 filters, the band's pixels in units of 32.
__host__ __device__ constexpr int wgmma_d_floats(int pixels) { return (pixels + 31) / 32 * 32 * kWgmmaFilters; }

// places: the offset of each pixel in row 0 of a part of d.
template <int THREADS>
__device__ inline void wgmma_fill_places(int* places, int pixels) {
  for (int i = threadIdx.x; i < pixels; i += THREADS) places[i] = wgmma_offset<kWgmmaFilters>(0, wgmma_k_of(i));
}

// Fills 32 planes with d of filters first_plane + p of a Source of conv3x3.cuh, and `parts`, its big and its small part
// as operands B, `part` floats apart; filters from `count` on are zeros. Returns false if an element is not ordinary.
// Eight lanes have adjacent filters. PAIRS: w is even.
template <int THREADS, bool PAIRS, class Source>
__device__ inline bool wgmma_fill_windows(float* planes, float* parts, int part, const int* places,
                                          const Source& source, const typename Source::Channel* channels,
                                          int first_plane, int count, const MmaBand& band) {
  constexpr int kBatch = 4;  // windows whose loads are in flight together
  const int lane = threadIdx.x % 8, r0 = band.first / 2, r1 = (min(band.top + band.rows + 1, band.h) + 1) / 2;
  const int across = (band.w + 1) / 2, total = kWgmmaFilters / 8 * (r1 - r0) * across;
  bool ordinary = true;
  ConvWalk walk(r1 - r0, across, threadIdx.x / 8, THREADS / 8);
  for (int i = threadIdx.x / 8; i < total; i += kBatch * THREADS / 8) {
    typename Source::Raw raw[kBatch];
    int filter[kBatch], r[kBatch], c[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      filter[b] = i + b * THREADS / 8 < total ? 8 * walk.plane + lane : kWgmmaFilters;
      r[b] = r0 + walk.row;
      c[b] = walk.column;
      if (filter[b] < count) raw[b] = source.load(first_plane + filter[b], r[b], c[b]);
      walk.advance();
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (filter[b] == kWgmmaFilters) continue;
      float d[4] = {};
      if (filter[b] < count) source.finish(channels[filter[b]], raw[b], r[b], c[b], d);
      ordinary = ordinary && is_ordinary(d[0]) && is_ordinary(d[1]) && is_ordinary(d[2]) && is_ordinary(d[3]);
      const int row = 2 * r[b] - band.top, column = 2 * c[b];  // of the band
      float* to = planes + filter[b] / 4 * band.pitch + 4 * ((row + 1) * band.stride + column + 1) + filter[b] % 4;
      float* const line = parts + filter[b] * 32;
#pragma unroll
      for (int a = 0; a < 2; ++a) {
        if (row + a >= -1 && row + a <= band.rows) {
          to[0] = d[2 * a];
          to[4] = d[2 * a + 1];
        }
        to += 4 * band.stride;
        const int pixel = (row + a) * band.w + column;
        if (row + a < 0 || pixel >= band.pixels) continue;
        Pack<unsigned, 8> big, small;
        split_tf32(d[2 * a], big.at[0], small.at[0]);
        split_tf32(d[2 * a + 1], big.at[1], small.at[1]);
        const int offset = places[pixel] ^ lane * 4;
        if (PAIRS) {
          *packs<8>(reinterpret_cast<unsigned*>(line + offset)) = big;
          *packs<8>(reinterpret_cast<unsigned*>(line + part + offset)) = small;
        } else {
          line[offset] = __uint_as_float(big.at[0]);
          line[part + offset] = __uint_as_float(small.at[0]);
          if (column + 1 >= band.w) continue;
          const int next = places[pixel + 1] ^ lane * 4;
          line[next] = __uint_as_float(big.at[1]);
          line[part + next] = __uint_as_float(small.at[1]);
        }
      }
    }
  }
  return ordinary;
}

// sums += dw of a warpgroup over a band: a warp has the 16 channels of `tap`, or of none from kMmaTaps on. x: 16
// planes, d: operand B as from wgmma_fill_windows, zeros from the band's last pixel on.
__device__ inline void wgmma_add_weights(float (&sums)[16], int tap, const float* x, const float* d, int part,
                                         const int* offsets, const MmaBand& band) {
  const int g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
  const float* const from = x + g / 4 * band.pitch + g % 4 + band.tap(min(tap, kMmaTaps - 1));
  const unsigned address = shared_address(d);
  const int steps = (band.pixels + 7) / 8;
  float main[16] = {}, cross[16] = {}, values[4];
  unsigned big[2][4], small[2][4];
  const auto load = [&](int step) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int pixel = min(wgmma_pixel_of(8 * step + t + e / 2 * 4), band.pixels - 1);
      values[e] = from[offsets[pixel] + e % 2 * 2 * band.pitch];
    }
  };
  load(0);
#pragma unroll 1
  for (int first = 0; first < steps; first += 2) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int step = first + i;
      if (step >= steps) break;
      sm90::wgmma_wait_group<1>();  // the fragments of step - 2 are free
#pragma unroll
      for (int e = 0; e < 4; ++e) split_tf32(values[e], big[i][e], small[i][e]);
      if (step + 1 < steps) load(step + 1);
      const unsigned k = address + step / 4 * (128 * kWgmmaFilters) + step % 4 * 32;
      const unsigned long long upper = sm90::matrix_descriptor(k, 16, 1024);
      const unsigned long long lower = sm90::matrix_descriptor(k + 4 * part, 16, 1024);
      sm90::wgmma_fence();
      sm90::wgmma_rs<kWgmmaFilters>(cross, small[i], upper, true);
      sm90::wgmma_rs<kWgmmaFilters>(main, big[i], upper, true);
      sm90::wgmma_rs<kWgmmaFilters>(cross, big[i], lower, true);
      sm90::wgmma_commit_group();
    }
  }
  sm90::wgmma_wait_group<0>();
  sm90::warpgroup_fence_operand(main);
  sm90::warpgroup_fence_operand(cross);
#pragma unroll
  for (int i = 0; i < 16; ++i) sums[i] += main[i] + cross[i];
}

// The same sums in float32, from the planes of d.
__device__ inline void wgmma_add_weights_in_float(float (&sums)[16], int tap, const float* x, const float* d,
                                                  const int* offsets, const MmaBand& band) {
  const int g = threadIdx.x % kWarp / 4, t = threadIdx.x % 4;
  const float* const from = x + g / 4 * band.pitch + g % 4 + band.tap(min(tap, kMmaTaps - 1));
  const float* const columns = d + t / 2 * band.pitch + t % 2 * 2 + band.tap(4);
#pragma unroll 1
  for (int pixel = 0; pixel < band.pixels; ++pixel) {
    const int at = offsets[pixel];
    const float values[2] = {from[at], from[at + 2 * band.pitch]};
#pragma unroll
    for (int i = 0; i < 16; ++i) sums[i] += values[i / 2 % 2] * columns[i / 4 * 2 * band.pitch + at + i % 2];
  }
}

}  // namespace warpwise
