// The convolution on tensor cores in float32 accuracy: three TF32 products for each float32 product.
//
// k04 multiplies at 40 % of the FP32 units' peak. The TF32 rate of mma.sync is about five times their peak, so three
// products take less time than k04's one. A block keeps its filters and loops over images; the copy of an image to
// shared memory overlaps the multiplications of the previous one.

#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/sm80/conv3x3_mma.cuh>

// y: (n, k, h, w) = x: (n, c, h, w) convolved with f: (k, c, 3, 3), padded by 1. partials: (k, parts, 3): the sum of a
// warp's pixels, of their squared distances from their mean, and their number. Grid: tiles of 16 TILES filters, bands
// of `rows` rows, and splits of the images. RESIDENT: the filters of all chunks of channels are in shared memory.
template <int WARPS, int TILES, int COUNT, bool RESIDENT>
__global__ void __launch_bounds__(WARPS* warpwise::kWarp, WARPS == 4 ? 3 : 2) convolution_with_statistics(
    const float* x, const float* f, float* y, float* partials, int parts, int n, int c, int h, int w, int k, int rows,
    int splits) {
  using Filters = warpwise::MmaFilters<TILES>;
  constexpr int kThreads = WARPS * warpwise::kWarp, kRows = 16 * TILES;
  struct Statistic {
    float sum, squares, origin;  // of v - origin and of its square
  };
  __shared__ Statistic statistics[WARPS][kRows];
  extern __shared__ __align__(16) float shared[];

  const int tiles = (k + kRows - 1) / kRows, bands = (h + rows - 1) / rows;
  int split = blockIdx.x;
  const int first_filter = split % tiles * kRows;
  split /= tiles;
  const warpwise::MmaBand band(split % bands, rows, h, w);
  const int warp = threadIdx.x / warpwise::kWarp, lane = threadIdx.x % warpwise::kWarp;
  const int part = split * WARPS + warp, chunks = (c + warpwise::kMmaPlanes - 1) / warpwise::kMmaPlanes;
  split /= bands;

  const int size = warpwise::kMmaQuads * band.pitch;  // of a chunk's planes
  float *const planes = shared, *const filters = planes + 2 * size;
  int* const offsets = reinterpret_cast<int*>(filters + (RESIDENT ? chunks : 1) * Filters::kFloats);
  const warpwise::MmaChunkCopy<kThreads> copy{planes, x, n, c, band, offsets};
  bool ordinary = true;
  const auto fill = [&](int chunk, int to) {
    const bool found = Filters::template fill<kThreads, false>(filters + to * Filters::kFloats, f, first_filter,
                                                               chunk * warpwise::kMmaPlanes, k, c);
    ordinary = found && (ordinary || !RESIDENT);
  };

  warpwise::mma_zero<kThreads>(planes, 2 * size);
  band.fill_offsets<kThreads>(offsets);
  warpwise::wait_for_previous_kernel();
  __syncthreads();
  copy(split, 0, 0);
  if (RESIDENT) {
    for (int chunk = 0; chunk < chunks; ++chunk) fill(chunk, chunk);
  }
  const warpwise::MmaPixels<WARPS, COUNT> pixels(offsets, band.pixels);
  int valid = 0, buffer = 0;  // valid: pixels of the warp
#pragma unroll
  for (int j = 0; j < COUNT; ++j) valid += max(0, min(8, band.pixels - 8 * (warp + WARPS * j)));

  for (int image = split; image < n; image += splits) {
    float sums[COUNT][TILES][4] = {};
    for (int chunk = 0; chunk < chunks; ++chunk) {
      __pipeline_wait_prior(0);
      if (!RESIDENT) {
        __syncthreads();  // the reads of the previous chunk are complete
        fill(chunk, 0);
      }
      const float* const from = planes + buffer * size;
      const bool found = ordinary && warpwise::mma_ordinary_planes<kThreads>(from, band, offsets);
      const bool fallback = __syncthreads_or(!found);
      const bool last = chunk + 1 == chunks;
      copy(last ? image + splits : image, last ? 0 : chunk + 1, buffer ^= 1);
      const float* const a = filters + (RESIDENT ? chunk : 0) * Filters::kFloats;
      if (fallback) {
        warpwise::mma_add_chunk_in_float<WARPS>(sums, a, from, offsets, band);
      } else {
        warpwise::mma_add_chunk(sums, a, from, pixels.at, pixels.count, band);
      }
    }
    float origins[2 * TILES], added[2 * TILES] = {}, squares[2 * TILES] = {};  // of rows 8 i + lane / 4
#pragma unroll
    for (int i = 0; i < 2 * TILES; ++i) {
      const float pixel = __shfl_sync(warpwise::kFullMask, sums[0][i / 2][i % 2 * 2], lane & ~3);
      origins[i] = image == split ? (valid > 0 ? pixel : 0.0f) : statistics[warp][8 * i + lane / 4].origin;
    }
#pragma unroll
    for (int j = 0; j < COUNT; ++j) {
      const int exist = band.pixels - pixels.pixel(j);
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (e >= exist) continue;
#pragma unroll
        for (int i = 0; i < 2 * TILES; ++i) {
          const float shifted = sums[j][i / 2][i % 2 * 2 + e] - origins[i];
          added[i] += shifted;
          squares[i] += shifted * shifted;
        }
      }
    }
    __syncwarp();  // the origins have been read
#pragma unroll
    for (int i = 0; i < 2 * TILES; ++i) {
      Statistic& statistic = statistics[warp][8 * i + lane / 4];
      const float sum = warpwise::warp_reduce<warpwise::Sum, 4>(added[i]);
      const float square = warpwise::warp_reduce<warpwise::Sum, 4>(squares[i]);
      if (lane % 4 > 0) continue;
      const Statistic before = image == split ? Statistic{} : statistic;
      statistic = {before.sum + sum, before.squares + square, origins[i]};
    }
    warpwise::mma_store_planes<WARPS>(y + (static_cast<long long>(image) * k + first_filter) * h * w, sums,
                                      k - first_filter, band);
  }

  __syncwarp();
  const float count = static_cast<float>(valid) * static_cast<float>((n - split + splits - 1) / splits);
  for (int row = lane; row < min(kRows, k - first_filter); row += warpwise::kWarp) {
    const Statistic statistic = statistics[warp][row];
    const float squares = statistic.squares - statistic.sum * statistic.sum / fmaxf(count, 1.0f);
    float* const to = partials + 3 * (static_cast<long long>(first_filter + row) * parts + part);
    to[0] = statistic.sum + count * statistic.origin;
    to[1] = squares < 0.0f ? 0.0f : squares;  // NaN is kept
    to[2] = count;
  }
}
