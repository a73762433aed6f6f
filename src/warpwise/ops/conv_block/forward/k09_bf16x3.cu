// The convolution from numbers divided into three bfloat16 where they are stored, and ldmatrix.
//
// k07 divides a pixel into its TF32 parts once for each tap that reads it, between two groups of wgmma. Here the image
// and the filters are stored as parts, which ldmatrix and one load of a fragment read: see sm80/conv3x3_bf16.cuh. The
// block's statistics are those of k07, whose pooling combines them.

#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/sm80/conv3x3_bf16.cuh>

#include "combine_and_pool.cuh"

using warpwise::BfImage;

// The filters as A: rows are 32 filters, K is 16 channels. Fragments: (tap, half of the rows, part, lane, 16 bytes).
struct Filters {
  static constexpr int kTap = 2 * warpwise::kBfParts * 512, kBytes = warpwise::kMmaTaps * kTap;
  static constexpr int kPairs = warpwise::kMmaPlanes / 2, kItems = kPairs * warpwise::kMmaTaps;  // of a filter

  // Of the pair of `plane` and plane + 1: part 0.
  __device__ static int index(int filter, int plane, int tap) {
    const int lane = filter % 8 * 4 + plane % 8 / 2, word = filter / 8 % 2 + 2 * (plane / 8);
    return tap * kTap + filter / 16 * warpwise::kBfParts * 512 + 16 * lane + 4 * word + 2 * (plane % 2);
  }
  __device__ static float value(const unsigned char* filters, int filter, int plane, int tap) {
    const unsigned char* const from = filters + index(filter, plane, tap);
    const auto part = [&](int i) { return *reinterpret_cast<const unsigned short*>(from + 512 * i); };
    return warpwise::join_bfloat16(part(0), part(1), part(2));
  }
  // Fills them from f: (k, c, 3, 3). Returns false if an element is not ordinary.
  template <int THREADS>
  __device__ static bool fill(unsigned char* to, const float* f, int first_filter, int k, int c) {
    constexpr int kAll = warpwise::kMmaFilters * kItems, kLoads = (kAll + THREADS - 1) / THREADS;
    float values[kLoads][2];
#pragma unroll
    for (int i = 0; i < 2 * kLoads; ++i) {
      const int item = threadIdx.x + i / 2 * THREADS, filter = item / kItems, e = item % kItems;
      const int plane = e / warpwise::kMmaTaps * 2 + i % 2, tap = e % warpwise::kMmaTaps;
      const bool exists = item < kAll && first_filter + filter < k && plane < c;
      const long long at = (static_cast<long long>(first_filter + filter) * c + plane) * warpwise::kMmaTaps + tap;
      values[i / 2][i % 2] = exists ? f[at] : 0.0f;
    }
    bool ordinary = true;
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int item = threadIdx.x + i * THREADS, filter = item / kItems, e = item % kItems;
      if (item >= kAll) continue;
      unsigned parts[warpwise::kBfParts];
      ordinary = warpwise::split_bfloat16(parts, values[i][0], values[i][1]) & ordinary;
      const int at = index(filter, e / warpwise::kMmaTaps * 2, e % warpwise::kMmaTaps);
#pragma unroll
      for (int part = 0; part < warpwise::kBfParts; ++part) {
        *reinterpret_cast<unsigned*>(to + at + 512 * part) = parts[part];
      }
    }
    return ordinary;
  }
};

// sums[j] += a tap's products for the n-tiles FIRST and, if TWO, FIRST + 1. from: this lane's row for ldmatrix, of the
// first n-tile in the lower half of a warp, of the second in the upper half.
template <int FIRST, bool TWO, int COUNT>
__device__ inline void add_pixels(float (&sums)[COUNT][4], const unsigned (&a)[warpwise::kBfParts][4], unsigned from) {
  unsigned b[warpwise::kBfParts][4];
#pragma unroll
  for (int part = 0; part < warpwise::kBfParts; ++part) warpwise::ldmatrix_x4(b[part], from + part * BfImage::kPart);
  float added[2][4] = {};
#pragma unroll
  for (int product = 0; product < warpwise::kBfProducts; ++product) {
    const unsigned (&of_a)[4] = a[warpwise::bf_part_a(product)], (&of_b)[4] = b[warpwise::bf_part_b(product)];
    warpwise::mma::mma_sync(added[0], of_a, of_b[0], of_b[1], __nv_bfloat16());
    if (TWO) warpwise::mma::mma_sync(added[1], of_a, of_b[2], of_b[3], __nv_bfloat16());
  }
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    sums[FIRST][e] += added[0][e];
    if (TWO) sums[FIRST + TWO][e] += added[1][e];
  }
}

template <int FIRST, int COUNT, int PAIRS>
__device__ inline void add_all_pixels(float (&sums)[COUNT][4], const unsigned (&a)[warpwise::kBfParts][4],
                                      const unsigned (&from)[PAIRS], int tap, bool last) {
  if constexpr (FIRST + 2 < COUNT) {
    add_pixels<FIRST, true>(sums, a, from[FIRST / 2] + tap);
    add_all_pixels<FIRST + 2>(sums, a, from, tap, last);
  } else if constexpr (FIRST + 2 == COUNT) {
    if (last) {
      add_pixels<FIRST, true>(sums, a, from[FIRST / 2] + tap);
    } else {
      add_pixels<FIRST, false>(sums, a, from[FIRST / 2] + tap);
    }
  } else if (last) {
    add_pixels<FIRST, false>(sums, a, from[FIRST / 2] + tap);
  }
}

// y: (n, k, h, w) = x: (n, c, h, w) convolved with f: (k, c, 3, 3), padded by 1; c is at most 16. partials: (k, parts,
// 3): the sum of a block's pixels, of their squared distances from their mean, and their number. A warp has 16 filters
// and every kGroups-th n-tile of eight pixels. Grid: tiles of 32 filters, bands of `rows` rows, and splits of the
// images.
template <int THREADS>
__global__ void __launch_bounds__(THREADS, 512 / THREADS) convolution_with_statistics(const float* x, const float* f,
                                                                                      float* y, float* partials,
                                                                                      int parts, int n, int c, int h,
                                                                                      int w, int k, int rows,
                                                                                      int splits) {
  constexpr int kWarps = THREADS / warpwise::kWarp, kGroups = kWarps / 2, kCount = (28 + kGroups - 1) / kGroups;
  constexpr int kUnits = THREADS / 128, kStep = kUnits * THREADS / 8;  // pairs of planes of pixels of a thread at once
  __shared__ bool fallbacks[kWarps];
  extern __shared__ __align__(16) unsigned char shared[];
  const int tiles = (k + warpwise::kMmaFilters - 1) / warpwise::kMmaFilters, bands = (h + rows - 1) / rows;
  int split = blockIdx.x;
  const int first_filter = split % tiles * warpwise::kMmaFilters;
  split /= tiles;
  const warpwise::MmaBand band(split % bands, rows, h, w);
  const int part = split, warp = threadIdx.x / warpwise::kWarp, lane = threadIdx.x % warpwise::kWarp;
  split /= bands;
  unsigned char *const filters = shared, *const planes = filters + Filters::kBytes;
  const int bytes = (rows + 2) * band.stride * BfImage::kPitch;
  int* const offsets = reinterpret_cast<int*>(planes + bytes);

  float values[kUnits][2];
  const int plane = lane % 8 * 2;
  const auto load = [&](int image, int first) {
    const float* const from = x + static_cast<long long>(image) * c * h * w + band.first * w;
#pragma unroll
    for (int i = 0; i < 2 * kUnits; ++i) {
      const int pixel = first + threadIdx.x / 8 + i / 2 * (THREADS / 8);
      const bool exists = pixel < band.copied && plane + i % 2 < c;
      values[i / 2][i % 2] = exists ? from[(plane + i % 2) * h * w + pixel] : 0.0f;
    }
  };
  const auto store = [&](int first) {
    bool ordinary = true;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int pixel = first + threadIdx.x / 8 + i * (THREADS / 8);
      if (pixel >= band.copied) continue;
      unsigned char* const to = planes + (band.shift + offsets[pixel] / 4) * BfImage::kPitch;
      ordinary = BfImage::store(to, plane, values[i][0], values[i][1]) & ordinary;
    }
    return ordinary;
  };

  warpwise::mma_zero<THREADS>(reinterpret_cast<float*>(planes), bytes / 4);
  band.fill_offsets<THREADS>(offsets);
  warpwise::wait_for_previous_kernel();
  load(split, 0);
  const bool ordinary = Filters::fill<THREADS>(filters, f, first_filter, k, c);
  __syncthreads();
  const int half = warp % 2, group = warp / 2, count = max(0, ((band.pixels + 7) / 8 - group + kGroups - 1) / kGroups);
  unsigned from[(kCount + 1) / 2];
#pragma unroll
  for (int j = 0; j < (kCount + 1) / 2; ++j) {
    const int pixel = 8 * (group + kGroups * (2 * j + lane / 16)) + lane % 8;
    from[j] = warpwise::shared_address(planes) + offsets[min(pixel, band.pixels - 1)] / 4 * BfImage::kPitch +
              lane / 8 % 2 * 16;
  }
  const bool pairs = h * w % 2 == 0 && band.top * w % 2 == 0 && warpwise::aligned<8>(static_cast<const float*>(y));
  float totals[2] = {}, squares[2] = {}, origins[2] = {};  // of rows lane / 4 and lane / 4 + 8

  for (int image = split; image < n; image += splits) {
    bool found = ordinary;
    for (int first = 0; first < band.copied; first += kStep) {
      if (image > split || first > 0) load(image, first);
      found = store(first) & found;
    }
    const bool fallback = __syncthreads_or(!found);
    float sums[kCount][4] = {};
    if (fallback) {
      for (int tap = 0; tap < warpwise::kMmaTaps; ++tap) {
#pragma unroll 1
        for (int channel = 0; channel < c; ++channel) {
#pragma unroll
          for (int e = 0; e < 4 * kCount; ++e) {
            const int pixel = 8 * (group + kGroups * (e / 4)) + lane % 4 * 2 + e % 2;
            const int position = (offsets[min(pixel, band.pixels - 1)] + band.tap(tap)) / 4;
            sums[e / 4][e % 4] += Filters::value(filters, 16 * half + e / 2 % 2 * 8 + lane / 4, channel, tap) *
                                  BfImage::value(planes + position * BfImage::kPitch, channel);
          }
        }
      }
    } else {
#pragma unroll 1
      for (int tap = 0; tap < warpwise::kMmaTaps; ++tap) {
        unsigned a[warpwise::kBfParts][4];
#pragma unroll
        for (int i = 0; i < warpwise::kBfParts; ++i) {
          const int at = tap * Filters::kTap + (half * warpwise::kBfParts + i) * 512 + 16 * lane;
          warpwise::ld_shared_v4(a[i], warpwise::shared_address(filters) + at);
        }
        add_all_pixels<0>(sums, a, from, band.tap(tap) / 4 * BfImage::kPitch, count == kCount);
      }
    }
    __syncthreads();  // the reads of the planes are complete
    const int row = first_filter + 16 * half + lane / 4;
    float* const to = y + (static_cast<long long>(image) * k + row) * h * w + band.top * w;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (image == split) origins[r] = __shfl_sync(warpwise::kFullMask, sums[0][2 * r], lane / 4 * 4);
#pragma unroll
      for (int e = 0; e < 2 * kCount; ++e) {
        const int pixel = 8 * (group + kGroups * (e / 2)) + lane % 4 * 2 + e % 2;
        if (pixel >= band.pixels) continue;
        const float value = sums[e / 2][2 * r + e % 2], shifted = value - origins[r];
        totals[r] += shifted;
        squares[r] += shifted * shifted;
        if (row + 8 * r >= k) continue;
        float* const place = to + 8 * r * h * w + pixel;
        if (!pairs || pixel - e % 2 + 1 == band.pixels) {
          *place = value;
        } else if (e % 2 == 0) {
          *warpwise::packs<8>(place) = warpwise::Pack<float, 8>{{value, sums[e / 2][2 * r + 1]}};
        }
      }
    }
  }

  // The block's statistics from those of its warps: M2 = sum(M2_w + n_w (m_w - m)^2).
  __shared__ float statistics[3][warpwise::kMmaFilters][kGroups];
  int pixels = 0;  // of the group
  for (int j = 0; j < count; ++j) pixels += min(8, band.pixels - 8 * (group + kGroups * j));
  const float number = static_cast<float>(pixels) * static_cast<float>((n - split + splits - 1) / splits);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float total = warpwise::warp_reduce<warpwise::Sum, 4>(totals[r]);
    const float spread = warpwise::warp_reduce<warpwise::Sum, 4>(squares[r]) - total * total / fmaxf(number, 1.0f);
    if (lane % 4 > 0) continue;
    const int filter = 16 * half + 8 * r + lane / 4;
    statistics[0][filter][group] = number > 0.0f ? total + number * origins[r] : 0.0f;
    statistics[1][filter][group] = spread < 0.0f ? 0.0f : spread;  // NaN is kept
    statistics[2][filter][group] = number;
  }
  __syncthreads();
  const int filter = threadIdx.x / kGroups, other = threadIdx.x % kGroups;
  if (filter >= warpwise::kMmaFilters) return;
  const float one = statistics[0][filter][other], size = statistics[2][filter][other];
  const float sum = warpwise::warp_reduce<warpwise::Sum, kGroups>(one);
  const float all = warpwise::warp_reduce<warpwise::Sum, kGroups>(size), distance = one / fmaxf(size, 1.0f) - sum / all;
  const float m2 =
      warpwise::warp_reduce<warpwise::Sum, kGroups>(statistics[1][filter][other] + size * distance * distance);
  if (other > 0 || first_filter + filter >= k) return;
  float* const to = partials + 3 * (static_cast<long long>(first_filter + filter) * parts + part);
  to[0] = sum;
  to[1] = m2;
  to[2] = all;
}
