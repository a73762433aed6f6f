// Hopper, many channels: the gradient of the convolution is stored, and each product has a kernel of its own.
//
// A block of k06 recomputes d, the gradient of the convolution, for 16 channels of dx or dw and 32 filters: with 32
// channels and 64 filters each element of d four times. Here a separate kernel writes d once. dx is the convolution of
// d with the transposed filters by wgmma, as k07 of the forward. For dw, a warp multiplies d of 64 filters by eight
// channels of a row of taps, 36 mma.sync for 22 loads from shared memory; k06 has 30 for 22.

#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/sm80/conv3x3_mma_weights.cuh>
#include <warpwise/sm90/conv3x3_wgmma.cuh>
#include <warpwise/sm90/tma.cuh>

#include "store_gradient.cuh"

constexpr int kInputThreads = 4 * warpwise::kWarpgroup;

// dx: (n, c, h, w) = d: (n, k, h, w) times f: (k, c, 3, 3). Grid: tiles of 32 channels, bands of `rows` rows, and
// splits of the images. RESIDENT: the filters of all chunks of k are in shared memory.
template <bool RESIDENT>
__global__ void __launch_bounds__(kInputThreads, 1) grad_input(const float* d, const float* f, float* dx, int n, int c,
                                                               int h, int w, int k, int rows, int splits) {
  using Filters = warpwise::WgmmaFilters;
  extern __shared__ __align__(1024) float shared[];

  const int tiles = (c + warpwise::kWgmmaFilters - 1) / warpwise::kWgmmaFilters, bands = (h + rows - 1) / rows;
  int split = blockIdx.x;
  const int first_channel = split % tiles * warpwise::kWgmmaFilters;
  split /= tiles;
  const warpwise::MmaBand band(split % bands, rows, h, w);
  split /= bands;
  const int lane = threadIdx.x % warpwise::kWarp, chunks = (k + warpwise::kMmaPlanes - 1) / warpwise::kMmaPlanes;

  const int size = warpwise::kMmaQuads * band.pitch;  // of a chunk's planes
  float *const filters = shared, *const planes = filters + (RESIDENT ? chunks : 1) * Filters::kFloats;
  int* const offsets = reinterpret_cast<int*>(planes + 2 * size);
  const warpwise::MmaChunkCopy<kInputThreads> copy{planes, d, n, k, band, offsets};
  bool ordinary = true;
  const auto fill = [&](int chunk, int to) {
    const bool found = Filters::fill<kInputThreads, true>(filters + to * Filters::kFloats, f, first_channel,
                                                          chunk * warpwise::kMmaPlanes, c, k);
    ordinary = found && (ordinary || !RESIDENT);
    warpwise::sm90::fence_proxy_async();  // wgmma reads them
  };

  warpwise::mma_zero<kInputThreads>(planes, 2 * size);
  band.fill_offsets<kInputThreads>(offsets);
  if (RESIDENT) {
    for (int chunk = 0; chunk < chunks; ++chunk) fill(chunk, chunk);
  }
  warpwise::wait_for_previous_kernel();
  __syncthreads();
  copy(split, 0, 0);
  const int pixel = warpwise::wgmma_pixel(threadIdx.x / warpwise::kWarpgroup);
  const int at[2] = {offsets[min(pixel, band.pixels - 1)], offsets[min(pixel + 8, band.pixels - 1)]};
  const bool exists[2] = {pixel < band.pixels, pixel + 8 < band.pixels};
  const bool multiplies = pixel / warpwise::kWgmmaPixels * warpwise::kWgmmaPixels < band.pixels;  // the warpgroup
  int buffer = 0;

  for (int image = split; image < n; image += splits) {
    float sums[16] = {};
    for (int chunk = 0; chunk < chunks; ++chunk) {
      __pipeline_wait_prior(0);
      if (!RESIDENT) {
        __syncthreads();  // the reads of the previous chunk are complete
        fill(chunk, 0);
      }
      const float* const from = planes + buffer * size;
      const bool found = ordinary && warpwise::mma_ordinary_planes<kInputThreads>(from, band, offsets);
      const bool fallback = __syncthreads_or(!found);
      const bool last = chunk + 1 == chunks;
      copy(last ? image + splits : image, last ? 0 : chunk + 1, buffer ^= 1);
      const float* const b = filters + (RESIDENT ? chunk : 0) * Filters::kFloats;
      if (multiplies && fallback) warpwise::wgmma_add_chunk_in_float(sums, b, from, at, band);
      if (multiplies && !fallback) warpwise::wgmma_add_chunk(sums, b, from, at, band);
    }
    warpwise::wgmma_store_planes(dx, sums, image, first_channel, c, lane, pixel, exists, band);
  }
  __pipeline_wait_prior(0);
}

constexpr int kWeightThreads = 6 * warpwise::kWarp;  // two halves of the channels, three rows of taps
constexpr int kTiles = 4, kFilters = 16 * kTiles, kRowTaps = 3;

// The sums of dw of a warp: 64 filters, eight channels, the three taps of a row. sums[tap][tile]: a fragment's row is a
// filter, its column a channel.
struct WeightSums {
  float sums[kRowTaps][kTiles][4] = {};

  __device__ static int tap() { return threadIdx.x / warpwise::kWarp / 2 * kRowTaps; }  // the first one
  __device__ static int channel() { return threadIdx.x / warpwise::kWarp % 2 * 8; }     // the warp's first channel

  // Adds the products of the pixels of a band: two steps of K, 48 products for each element, per sum of mma.sync.
  __device__ void add(const float* x, const float* d, const int* offsets, const warpwise::MmaBand& band) {
    const int g = threadIdx.x % warpwise::kWarp / 4, t = threadIdx.x % 4;
    const unsigned column =
        warpwise::shared_address(x + (channel() / 4 + g / 4) * band.pitch + g % 4 + band.tap(tap()));
    const unsigned row = warpwise::shared_address(d + g / 4 * band.pitch + g % 4 + band.tap(4));
    const unsigned eight_rows = 8 * band.pitch;
    for (int first = 0; first < band.pixels; first += 16) {
      float part[kRowTaps][kTiles][4] = {};
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        unsigned at[2];  // bytes
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int pixel = first + 8 * step + t % 2 + t / 2 * 4 + 2 * i;
          at[i] = 4 * (pixel < band.pixels ? offsets[pixel] : 4 * band.w);  // d is 0 at the right border
        }
        unsigned big[kTiles][4], small[kTiles][4];
#pragma unroll
        for (int i = 0; i < 2 * kTiles; ++i) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const float value = __uint_as_float(warpwise::ld_shared(row + at[e] + i * eight_rows));
            warpwise::split_tf32(value, big[i / 2][2 * e + i % 2], small[i / 2][2 * e + i % 2]);
          }
        }
#pragma unroll
        for (int i = 0; i < kRowTaps; ++i) {
          unsigned upper[2], lower[2];
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            warpwise::split_tf32(__uint_as_float(warpwise::ld_shared(column + at[e] + 16 * i)), upper[e], lower[e]);
          }
#pragma unroll
          for (int product = 0; product < 3; ++product) {
            const unsigned (&b)[2] = product == 1 ? lower : upper;
#pragma unroll
            for (int tile = 0; tile < kTiles; ++tile) {
              warpwise::mma::mma_sync(part[i][tile], product == 0 ? small[tile] : big[tile], b[0], b[1], 0.0f);
            }
          }
        }
      }
#pragma unroll
      for (int i = 0; i < kRowTaps; ++i) {
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
          for (int e = 0; e < 4; ++e) sums[i][tile][e] += part[i][tile][e];
        }
      }
    }
  }

  // The same products in float32.
  __device__ void add_in_float(const float* x, const float* d, const int* offsets, const warpwise::MmaBand& band) {
    const int g = threadIdx.x % warpwise::kWarp / 4, column = channel() + 2 * (threadIdx.x % 4);
    const float* const from = x + column / 4 * band.pitch + column % 4 + band.tap(tap());
    const float* const rows = d + g / 4 * band.pitch + g % 4 + band.tap(4);
#pragma unroll 1
    for (int i = 0; i < band.pixels; ++i) {
      const int at = offsets[i];
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float a = rows[(4 * tile + e / 2 * 2) * band.pitch + at];
#pragma unroll
          for (int tap = 0; tap < kRowTaps; ++tap) sums[tap][tile][e] += a * from[at + 4 * tap + e % 2];
        }
      }
    }
  }

  // to: (kFilters, kMmaPlanes, 9).
  __device__ void store(float* to) const {
    const int row = threadIdx.x % warpwise::kWarp / 4, column = channel() + 2 * (threadIdx.x % 4);
#pragma unroll
    for (int i = 0; i < kRowTaps; ++i) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int at = (16 * tile + e / 2 * 8 + row) * warpwise::kMmaPlanes + column + e % 2;
          to[at * warpwise::kMmaTaps + tap() + i] = sums[i][tile][e];
        }
      }
    }
  }
};

// partials: (parts, k, c, 9) of dw, from x: (n, c, h, w) and d: (n, k, h, w). Grid: chunks of 16 channels, chunks of 64
// filters, bands of `rows` rows, and splits of the images; a band of a split is a part.
__global__ void __launch_bounds__(kWeightThreads, 2) grad_weight(const float* x, const float* d, float* partials, int n,
                                                                 int c, int h, int w, int k, int rows, int splits) {
  extern __shared__ __align__(16) float shared[];
  const int tiles = (c + warpwise::kMmaPlanes - 1) / warpwise::kMmaPlanes, chunks = (k + kFilters - 1) / kFilters;
  const int bands = (h + rows - 1) / rows;
  int split = blockIdx.x;
  const int first_channel = split % tiles * warpwise::kMmaPlanes;
  split /= tiles;
  const int first_filter = split % chunks * kFilters, part = split / chunks;
  const warpwise::MmaBand band(part % bands, rows, h, w);
  split = part / bands;
  const int channels = min(warpwise::kMmaPlanes, c - first_channel), filters = min(kFilters, k - first_filter);

  const int size = warpwise::kMmaQuads * band.pitch;  // of 16 planes
  float *const planes = shared, *const d_planes = planes + size;
  int* const offsets = reinterpret_cast<int*>(d_planes + kTiles * size);
  warpwise::mma_zero<kWeightThreads>(planes, (1 + kTiles) * size);
  band.fill_offsets<kWeightThreads>(offsets);
  warpwise::wait_for_previous_kernel();
  __syncthreads();

  WeightSums sums;
  for (int image = split; image < n; image += splits) {
    const float* const from = x + (static_cast<long long>(image) * c + first_channel) * h * w;
    const float* const d_from = d + (static_cast<long long>(image) * k + first_filter) * h * w;
    warpwise::mma_copy_planes<kWeightThreads>(planes, from, channels, band, offsets);
    for (int first = 0; first < filters; first += warpwise::kMmaPlanes) {
      warpwise::mma_copy_planes<kWeightThreads>(d_planes + first / 4 * band.pitch, d_from + first * h * w,
                                                min(warpwise::kMmaPlanes, filters - first), band, offsets);
    }
    __pipeline_commit();
    __pipeline_wait_prior(0);
    bool ordinary = true;
    for (int i = 0; i <= kTiles; ++i) {
      ordinary = ordinary && warpwise::mma_ordinary_planes<kWeightThreads>(planes + i * size, band, offsets);
    }
    if (__syncthreads_or(!ordinary)) {
      sums.add_in_float(planes, d_planes, offsets, band);
    } else {
      sums.add(planes, d_planes, offsets, band);
    }
    __syncthreads();  // the reads of shared memory are complete
  }
  sums.store(shared);
  __syncthreads();
  for (int i = threadIdx.x / warpwise::kWarp; i < filters; i += kWeightThreads / warpwise::kWarp) {
    float* const to =
        partials + ((static_cast<long long>(part) * k + first_filter + i) * c + first_channel) * warpwise::kMmaTaps;
    const float* const from = shared + i * warpwise::kMmaPlanes * warpwise::kMmaTaps;
    for (int e = threadIdx.x % warpwise::kWarp; e < channels * warpwise::kMmaTaps; e += warpwise::kWarp)
      to[e] = from[e];
  }
}
