// Both gradients on tensor cores in float32 accuracy, from one recomputation of the convolution's gradient.
//
// k03 has blocks for dw and blocks for dx: each computes d, the gradient of the convolution, and multiplies at 40 % of
// the FP32 units' peak. Here a block computes d of an image into shared memory once and multiplies it with the filters
// and with the image, three TF32 products for each float32 product. A block adds dw of several images in registers.

#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/sm80/conv3x3_mma_weights.cuh>

#include "grad_convolved.cuh"

// bar.sync: a barrier of all threads, which warps may reach at different instructions.
__device__ inline void block_sync() { asm volatile("bar.sync 0;" ::: "memory"); }

// Which of the two gradients a warp computes.
template <bool INPUT, bool WEIGHT>
struct Role {
  static constexpr bool kInput = INPUT, kWeight = WEIGHT;
};

// dx: (n, c, h, w) if INPUT, and if WEIGHT partials: (parts, k c 9) of dw, dgamma and dbeta; the other arguments are
// those of GradConvolved. Together they take up to 32 filters; INPUT alone loops over chunks of 32, WEIGHT alone has
// blocks for each chunk. With both, half of the warps multiply for dx and half for dw, which thus has no registers for
// dx. Grid: chunks of 16 channels, chunks of filters (WEIGHT alone), bands of `rows` rows, and `splits` of the images.
template <int THREADS, bool INPUT, bool WEIGHT, bool PAIRS, bool WHOLE, bool ADDED>
__global__ void __launch_bounds__(THREADS, 512 / THREADS) gradients(
    const float* y, const float* dy, const float* dmean, const float* dvar, const float* dconv, const float* mean,
    const float* var, const float* gamma, const float* beta, const float* sums, int parts, const float* x,
    const float* f, float* dx, float* dgamma, float* dbeta, float* partials, int n, int c, int h, int w, int k,
    float eps, int rows, int splits) {
  using Source = GradConvolved<PAIRS, ADDED>;
  using Filters = warpwise::MmaFilters<1>;
  constexpr int kThreads = THREADS, kWarps = kThreads / warpwise::kWarp;
  constexpr int kRoleWarps = INPUT && WEIGHT ? kWarps / 2 : kWarps,
                kCount = (28 + kRoleWarps - 1) / kRoleWarps;  // n-tiles of dx
  using Weights = warpwise::MmaWeights<kRoleWarps>;
  constexpr int kFilters = warpwise::kMmaFilters, kPlanes = warpwise::kMmaPlanes;
  // A block has one image. The convolution, the image and the filters are loaded before the previous kernel, which
  // writes the channels' sums and may write dy, has completed: this kernel starts when all blocks of the previous one
  // run, and then the kernels before that one have completed.
  constexpr bool kOnce = THREADS == 512 && INPUT && WEIGHT && WHOLE;
  __shared__ typename Source::Channel channels[kFilters];
  __shared__ bool fallbacks[kWarps];
  extern __shared__ __align__(16) float shared[];

  const int tiles = (c + kPlanes - 1) / kPlanes, bands = (h + rows - 1) / rows;
  int split = blockIdx.x;
  const int first_channel = split % tiles * kPlanes;
  split /= tiles;
  int first_filter = 0;
  if (!INPUT) {
    const int chunks = (k + kFilters - 1) / kFilters;
    first_filter = split % chunks * kFilters;
    split /= chunks;
  }
  const int part = split;
  const warpwise::MmaBand band(split % bands, rows, h, w);
  split /= bands;

  const int size = warpwise::kMmaQuads * band.pitch;  // of 16 planes
  float *const d = shared, *const image_planes = d + 2 * size, *const filters = image_planes + (WEIGHT ? size : 0);
  int* const offsets = reinterpret_cast<int*>(filters + (INPUT ? 2 * Filters::kFloats : 0));
  auto* const windows = reinterpret_cast<unsigned*>(offsets + band.entries());  // if WHOLE
  const auto source = grad_convolved<PAIRS, ADDED>(y, dy, dmean, dvar, dconv, mean, var, gamma, beta, sums, parts,
                                                   dgamma, dbeta, n, h, w, k, eps);
  bool ordinary = true;  // of this thread's filters
  const auto prepare = [&](int first) {
    const bool publish = WEIGHT && part == 0 && first_channel == 0;
    if constexpr (INPUT && !kOnce) {
      const typename Filters::template Loaded<kThreads, true, 2> loaded(f, first, first_channel, k, c);
      source.prepare(channels, first, min(kFilters, k - first), publish);
      ordinary = loaded.store(filters);
    } else {
      source.prepare(channels, first, min(kFilters, k - first), publish);
    }
  };
  const auto copy = [&](int image) {
    if (!WEIGHT) return;
    if constexpr (kOnce) {
      for (int first = 0; first < kFilters; first += kPlanes) {
        const float* const from = y + (static_cast<long long>(image) * k + first) * h * w;
        warpwise::mma_copy_planes<kThreads>(d + first / 4 * band.pitch, from, min(kPlanes, k - first), band, offsets);
      }
    }
    const float* const from = x + (static_cast<long long>(image) * c + first_channel) * h * w;
    warpwise::mma_copy_planes<kThreads>(image_planes, from, min(kPlanes, c - first_channel), band, offsets);
    __pipeline_commit();
  };

  warpwise::mma_zero<kThreads>(d, (WEIGHT ? 3 : 2) * size);
  band.fill_offsets<kThreads>(offsets);
  if (WHOLE) warpwise::mma_list_windows<kThreads>(windows, band);
  __syncthreads();
  if (!kOnce) warpwise::wait_for_previous_kernel();
  copy(split);
  if constexpr (kOnce) {
    const typename Filters::template Loaded<kThreads, true, 2> loaded(f, first_filter, first_channel, k, c);
    ordinary = loaded.store(filters);
    warpwise::wait_for_previous_kernel();
  }
  warpwise::MmaWholeWindows<kThreads, Source> once(source, split * k, kOnce ? k : 0, band, windows);
  if (WEIGHT) prepare(first_filter);
  if (kOnce) __pipeline_wait_prior(0);
  __syncthreads();
  const auto multiply = [&](auto role) {
    constexpr bool kInput = decltype(role)::kInput, kWeight = decltype(role)::kWeight;
    const warpwise::MmaPixels<kRoleWarps, kCount> pixels(offsets, band.pixels);
    Weights weights;
    for (int image = split; image < n; image += splits) {
      const long long input = static_cast<long long>(image) * c + first_channel;
      if (image > split) copy(image);
      float added[kCount][1][4] = {};
      for (int first = first_filter; first < (WEIGHT ? first_filter + 1 : k); first += kFilters) {
        const int count = min(kFilters, k - first);
        if (!WEIGHT) {
          prepare(first);
          block_sync();
        }
        bool found;
        if constexpr (kOnce) {
          found = once.fill(d, source, channels, count, band);
        } else if constexpr (WHOLE) {
          found =
              warpwise::mma_fill_whole_windows<kThreads>(d, source, channels, image * k + first, count, band, windows);
        } else {
          found = warpwise::mma_fill_windows<kThreads>(d, source, channels, image * k + first, count, band);
        }
        if (WEIGHT) {
          if (!kOnce) __pipeline_wait_prior(0);
          found = warpwise::mma_ordinary_planes<kThreads>(image_planes, band, offsets) && found;
        }
        const bool all = __all_sync(warpwise::kFullMask, found && ordinary);
        if (threadIdx.x % warpwise::kWarp == 0) fallbacks[threadIdx.x / warpwise::kWarp] = !all;
        block_sync();
        bool fallback = false;
#pragma unroll
        for (int warp = 0; warp < kWarps; ++warp) fallback = fallback || fallbacks[warp];
        for (int half = 0; kInput && half < (count > kPlanes ? 2 : 1); ++half) {
          const float *const a = filters + half * Filters::kFloats, *const b = d + half * size;
          if (fallback) {
            warpwise::mma_add_chunk_in_float<kRoleWarps>(added, a, b, offsets, band);
          } else {
            warpwise::mma_add_chunk(added, a, b, pixels.at, pixels.count, band);
          }
        }
        if (kWeight && fallback) weights.add_in_float(image_planes, d, offsets, band);
        if (kWeight && !fallback) weights.add(image_planes, d, offsets, band);
        block_sync();  // the reads of shared memory are complete
      }
      if (kInput) warpwise::mma_store_planes<kRoleWarps>(dx + input * h * w, added, c - first_channel, band);
    }
    for (int turn = 0; WEIGHT && turn < Weights::kSplits; ++turn) {
      if (kWeight && turn == Weights::split()) weights.store(shared);
      block_sync();
    }
  };
  if constexpr (INPUT && WEIGHT) {
    if (threadIdx.x < kThreads / 2) {
      multiply(Role<true, false>());
    } else {
      multiply(Role<false, true>());
    }
  } else {
    multiply(Role<INPUT, WEIGHT>());
  }

  if (!WEIGHT) return;
  const int elements = min(kPlanes, c - first_channel) * warpwise::kMmaTaps;
  for (int i = threadIdx.x / warpwise::kWarp; i < min(kFilters, k - first_filter); i += kWarps) {
    float* const to =
        partials + ((static_cast<long long>(part) * k + first_filter + i) * c + first_channel) * warpwise::kMmaTaps;
    const float* const from = shared + i * kPlanes * warpwise::kMmaTaps;
    for (int e = threadIdx.x % warpwise::kWarp; e < elements; e += warpwise::kWarp) to[e] = from[e];
  }
}
