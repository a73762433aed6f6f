// Hopper: both gradients by wgmma, from one recomputation of the convolution's gradient.
//
// As in k06, a block computes d, the gradient of the convolution, of an image into shared memory. It stores d twice: by
// planes, from which dx takes pixels into registers, and both parts of d for wgmma, as the operand of dw that is shared
// by all taps. Each warpgroup has 64 pixels of dx, and 64 rows of dw: a warp has one tap.

#include <warpwise/sm90/conv3x3_wgmma_weights.cuh>
#include <warpwise/sm90/tma.cuh>

#include "grad_convolved.cuh"

constexpr int kGroups = 4, kThreads = kGroups * warpwise::kWarpgroup, kChannels = 16;

// dx: (n, c, h, w) if INPUT, partials: (parts, k c 9) of dw, dgamma and dbeta, for k of up to 32 filters; the other
// arguments are those of GradConvolved. Grid: tiles of 16 channels, bands of `rows` rows, and `splits` of the images.
template <bool INPUT, bool PAIRS, bool ADDED>
__global__ void __launch_bounds__(kThreads, 1) gradients(const float* y, const float* dy, const float* dmean,
                                                         const float* dvar, const float* dconv, const float* mean,
                                                         const float* var, const float* gamma, const float* beta,
                                                         const float* sums, int parts, const float* x, const float* f,
                                                         float* dx, float* dgamma, float* dbeta, float* partials, int n,
                                                         int c, int h, int w, int k, float eps, int rows, int splits) {
  using Source = GradConvolved<PAIRS, ADDED>;
  using Filters = warpwise::WgmmaFilters<kChannels>;
  constexpr int kFilters = warpwise::kWgmmaFilters, kChunks = kFilters / warpwise::kMmaPlanes;
  constexpr int kElements = kChannels * warpwise::kMmaTaps;
  __shared__ typename Source::Channel channels[kFilters];
  extern __shared__ __align__(1024) float shared[];

  const int tiles = (c + kChannels - 1) / kChannels, bands = (h + rows - 1) / rows;
  int split = blockIdx.x;
  const int first_channel = split % tiles * kChannels;
  split /= tiles;
  const int block = split;
  const warpwise::MmaBand band(split % bands, rows, h, w);
  split /= bands;

  const int size = warpwise::kMmaQuads * band.pitch, part = warpwise::wgmma_d_floats(rows * w);
  float *const d_parts = shared, *const filters = d_parts + 2 * part;
  float *const d = filters + (INPUT ? kChunks * Filters::kFloats : 0), *const image_planes = d + kChunks * size;
  int* const offsets = reinterpret_cast<int*>(image_planes + size);
  int* const places = offsets + band.entries();
  const auto source = grad_convolved<PAIRS, ADDED>(y, dy, dmean, dvar, dconv, mean, var, gamma, beta, sums, parts,
                                                   dgamma, dbeta, n, h, w, k, eps);
  const int group = threadIdx.x / warpwise::kWarpgroup, warp = threadIdx.x / warpwise::kWarp;
  const int lane = threadIdx.x % warpwise::kWarp, valid_channels = min(kChannels, c - first_channel);

  bool ordinary = true;  // of this thread's filters
  if (INPUT) ordinary = Filters::template fill<kThreads, kChunks, true>(filters, f, 0, first_channel, k, c);
  warpwise::mma_zero<kThreads>(d_parts, 2 * part);
  warpwise::mma_zero<kThreads>(d, 3 * size);
  band.fill_offsets<kThreads>(offsets);
  warpwise::wgmma_fill_places<kThreads>(places, band.pixels);
  source.prepare(channels, 0, k, block == 0 && first_channel == 0);
  __syncthreads();
  const int pixel = warpwise::wgmma_pixel(group), tap = warp;
  const int at[2] = {offsets[min(pixel, band.pixels - 1)], offsets[min(pixel + 8, band.pixels - 1)]};
  float weights[16] = {};
  for (int image = split; image < n; image += splits) {
    const long long input = static_cast<long long>(image) * c + first_channel;
    warpwise::mma_copy_planes<kThreads>(image_planes, x + input * h * w, valid_channels, band, offsets);
    __pipeline_commit();
    bool found =
        warpwise::wgmma_fill_windows<kThreads, PAIRS>(d, d_parts, part, places, source, channels, image * k, k, band);
    __pipeline_wait_prior(0);
    found = warpwise::mma_ordinary_planes<kThreads>(image_planes, band, offsets) && found && ordinary;
    warpwise::sm90::fence_proxy_async();  // wgmma reads d_parts
    const bool fallback = __syncthreads_or(!found);
    if (INPUT && group * warpwise::kWgmmaPixels < band.pixels) {
      float added[kChannels / 2] = {};
      for (int chunk = 0; chunk * warpwise::kMmaPlanes < k; ++chunk) {
        const float *const a = filters + chunk * Filters::kFloats, *const b = d + chunk * size;
        if (fallback) {
          warpwise::wgmma_add_chunk_in_float<kChannels>(added, a, b, at, band);
        } else {
          warpwise::wgmma_add_chunk<kChannels>(added, a, b, at, band);
        }
      }
      float* const to = dx + input * h * w + band.top * w;
#pragma unroll
      for (int i = 0; i < kChannels / 2; ++i) {
        const int channel = i / 4 * 8 + lane % 4 * 2 + i % 2, p = pixel + i / 2 % 2 * 8;
        if (channel < valid_channels && p < band.pixels) to[channel * h * w + p] = added[i];
      }
    }
    if (group * 4 < warpwise::kMmaTaps) {
      if (fallback) {
        warpwise::wgmma_add_weights_in_float(weights, tap, image_planes, d, offsets, band);
      } else {
        warpwise::wgmma_add_weights(weights, tap, image_planes, d_parts, part, offsets, band);
      }
    }
    __syncthreads();  // the reads of shared memory are complete
  }

  if (tap < warpwise::kMmaTaps) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int filter = i / 4 * 8 + lane % 4 * 2 + i % 2, channel = lane / 4 + i / 2 % 2 * 8;
      shared[filter * kElements + channel * warpwise::kMmaTaps + tap] = weights[i];
    }
  }
  __syncthreads();
  const int elements = valid_channels * warpwise::kMmaTaps;
  for (int filter = warp; filter < k; filter += kThreads / warpwise::kWarp) {
    float* const to =
        partials + ((static_cast<long long>(block) * k + filter) * c + first_channel) * warpwise::kMmaTaps;
    for (int e = lane; e < elements; e += warpwise::kWarp) to[e] = shared[filter * kElements + e];
  }
}
