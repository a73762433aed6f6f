// Hopper: the convolution by wgmma, which reads the filters from shared memory; the pooling combines the statistics.
//
// In k06 each warp loads and splits the filters for its few pixels, and adds partial sums in float32: two other
// instructions per mma.sync. wgmma multiplies 64 pixels by 32 filters, whose big and small parts a block prepares once.
// A block has four warpgroups of 64 pixels of an image each. It reduces the statistics of its warps to one part per
// filter, so a block of the pooling can add the parts of its filter without a separate launch.

#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/sm90/conv3x3_wgmma.cuh>
#include <warpwise/sm90/tma.cuh>

#include "combine_and_pool.cuh"

constexpr int kThreads = 4 * warpwise::kWarpgroup, kWarps = kThreads / warpwise::kWarp;

// Sums eight values of each lane over the eight rows of a fragment, lanes 4 apart: lane l gets the sum of value l / 4.
__device__ inline float reduce_rows(float (&values)[8]) {
#pragma unroll
  for (int width = 4; width > 0; width /= 2) {
    const bool upper = threadIdx.x & (4 * width);
#pragma unroll
    for (int i = 0; i < width; ++i) {
      const float passed = upper ? values[i] : values[width + i], kept = upper ? values[width + i] : values[i];
      values[i] = kept + __shfl_xor_sync(warpwise::kFullMask, passed, 4 * width);
    }
  }
  return values[0];
}

// y: (n, k, h, w) = x: (n, c, h, w) convolved with f: (k, c, 3, 3), padded by 1. partials: (k, parts, 3): the sum of a
// block's pixels, of their squared distances from their mean, and their number. Grid: tiles of 32 filters, bands of
// `rows` rows, and splits of the images. RESIDENT: the filters of all chunks of channels are in shared memory.
template <bool RESIDENT>
__global__ void __launch_bounds__(kThreads, 1) convolution_with_statistics(const float* x, const float* f, float* y,
                                                                           float* partials, int parts, int n, int c,
                                                                           int h, int w, int k, int rows, int splits) {
  using Filters = warpwise::WgmmaFilters;
  extern __shared__ __align__(1024) float shared[];

  const int tiles = (k + warpwise::kWgmmaFilters - 1) / warpwise::kWgmmaFilters, bands = (h + rows - 1) / rows;
  int split = blockIdx.x;
  const int first_filter = split % tiles * warpwise::kWgmmaFilters;
  split /= tiles;
  const warpwise::MmaBand band(split % bands, rows, h, w);
  const int warp = threadIdx.x / warpwise::kWarp, lane = threadIdx.x % warpwise::kWarp;
  const int part = split, chunks = (c + warpwise::kMmaPlanes - 1) / warpwise::kMmaPlanes;
  split /= bands;

  const int size = warpwise::kMmaQuads * band.pitch;  // of a chunk's planes
  float *const filters = shared, *const planes = filters + (RESIDENT ? chunks : 1) * Filters::kFloats;
  int* const offsets = reinterpret_cast<int*>(planes + 2 * size);
  const warpwise::MmaChunkCopy<kThreads> copy{planes, x, n, c, band, offsets};
  bool ordinary = true;
  const auto fill = [&](int chunk, int to) {
    const bool found =
        Filters::fill<kThreads>(filters + to * Filters::kFloats, f, first_filter, chunk * warpwise::kMmaPlanes, k, c);
    ordinary = found && (ordinary || !RESIDENT);
    warpwise::sm90::fence_proxy_async();  // wgmma reads them
  };

  warpwise::mma_zero<kThreads>(planes, 2 * size);
  band.fill_offsets<kThreads>(offsets);
  warpwise::wait_for_previous_kernel();
  __syncthreads();
  copy(split, 0, 0);
  if (RESIDENT) {
    for (int chunk = 0; chunk < chunks; ++chunk) fill(chunk, chunk);
  }
  // Columns 8 j + 2 (lane % 4) + c of D are values 2 j + c; lane l has the statistic of value l / 4.
  const int pixel = warpwise::wgmma_pixel(threadIdx.x / warpwise::kWarpgroup), first_pixel = pixel - lane / 4;
  const int at[2] = {offsets[min(pixel, band.pixels - 1)], offsets[min(pixel + 8, band.pixels - 1)]};
  const int valid = max(0, min(16, band.pixels - first_pixel));  // pixels of the warp
  const bool exists[2] = {pixel < band.pixels, pixel + 8 < band.pixels};
  const bool multiplies = pixel / warpwise::kWgmmaPixels * warpwise::kWgmmaPixels < band.pixels;  // the warpgroup
  int buffer = 0;
  float total = 0.0f, total_squares = 0.0f, origin = 0.0f;

  for (int image = split; image < n; image += splits) {
    float sums[16] = {};
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
      const float* const b = filters + (RESIDENT ? chunk : 0) * Filters::kFloats;
      if (multiplies && fallback) warpwise::wgmma_add_chunk_in_float(sums, b, from, at, band);
      if (multiplies && !fallback) warpwise::wgmma_add_chunk(sums, b, from, at, band);
    }
    float added[8] = {}, squares[8] = {};
#pragma unroll
    for (int value = 0; value < 8; ++value) {
      if (image == split && lane / 4 == value) origin = sums[value / 2 * 4 + value % 2];
    }
#pragma unroll
    for (int value = 0; value < 8; ++value) {
      const float shift = __shfl_sync(warpwise::kFullMask, origin, 4 * value + lane % 4);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float shifted = exists[half] ? sums[value / 2 * 4 + half * 2 + value % 2] - shift : 0.0f;
        added[value] += shifted;
        squares[value] += shifted * shifted;
      }
    }
    total += reduce_rows(added);
    total_squares += reduce_rows(squares);
    warpwise::wgmma_store_planes(y, sums, image, first_filter, k, lane, pixel, exists, band);
  }

  // The block's statistics from those of its warps: M2 = sum(M2_w + n_w (m_w - m)^2).
  struct Statistic {
    float sum, squares, count;
  };
  constexpr int kPitch = kWarps + 1;  // so that 16 lanes of a filter, and 32 filters, have distinct banks
  auto* const statistics = reinterpret_cast<Statistic*>(filters);  // (filters, kPitch)
  __pipeline_wait_prior(0);
  __syncthreads();  // the reads of the filters are complete
  const float count = static_cast<float>(valid) * static_cast<float>((n - split + splits - 1) / splits);
  const float spread = total_squares - total * total / fmaxf(count, 1.0f);
  statistics[(lane / 8 * 8 + lane % 4 * 2 + lane / 4 % 2) * kPitch + warp] = {
      count > 0.0f ? total + count * origin : 0.0f, spread < 0.0f ? 0.0f : spread, count};  // NaN is kept
  __syncthreads();
  static_assert(kThreads == warpwise::kWgmmaFilters * kWarps, "a thread has the statistic of a warp and a filter");
  const int filter = threadIdx.x / kWarps;
  const Statistic one = statistics[filter * kPitch + threadIdx.x % kWarps];
  const float sum = warpwise::warp_reduce<warpwise::Sum, kWarps>(one.sum);
  const float pixels = warpwise::warp_reduce<warpwise::Sum, kWarps>(one.count);
  const float distance = one.sum / fmaxf(one.count, 1.0f) - sum / pixels;
  const float squares = warpwise::warp_reduce<warpwise::Sum, kWarps>(one.squares + one.count * distance * distance);
  if (threadIdx.x % kWarps > 0 || first_filter + filter >= k) return;
  float* const to = partials + 3 * (static_cast<long long>(first_filter + filter) * parts + part);
  to[0] = sum;
  to[1] = squares;
  to[2] = pixels;
}
