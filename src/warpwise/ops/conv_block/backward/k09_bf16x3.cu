// Numbers are split into three bfloat16 when they are stored: a third of the instructions between mma.sync.
//
// In k06 half of the issue slots split floats into parts, each float nine times, once for each tap that reads it.
// Here the convolution's gradient d, the image and the filters are stored as parts, which ldmatrix loads as fragments,
// transposed for dw: see sm80/conv3x3_bf16.cuh. A block has one or several whole images.

#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/sm80/conv3x3_bf16.cuh>

#include "grad_convolved.cuh"

using warpwise::BfGradient;
using warpwise::BfImage;

// A barrier of all threads, which warps may reach at different instructions.
__device__ inline void block_sync() { asm volatile("bar.sync 0;" ::: "memory"); }

// Pairs of planes of kUnits windows of a thread, from `first` on: all windows of eight planes, of the next eight, ...
template <int THREADS, class Source>
struct Windows8 {
  static constexpr int kUnits = THREADS / 256, kStep = kUnits * THREADS / 4;
  typename Source::Raw raw[kUnits][2];

  __device__ static int plane(int unit, int all) {
    return warpwise::quotient(unit, all) * 8 + static_cast<int>(threadIdx.x) % 4 * 2;
  }
  __device__ static int window(int unit, int all) { return unit - warpwise::quotient(unit, all) * all; }

  __device__ void load(const Source& source, int first_plane, int count, int first, int all, const unsigned* windows) {
#pragma unroll
    for (int i = 0; i < 2 * kUnits; ++i) {
      const int unit = first + threadIdx.x / 4 + i / 2 * (THREADS / 4), at = plane(unit, all) + i % 2;
      if (at >= count) continue;
      const int one = window(unit, all);
      raw[i / 2][i % 2] = source.load_inside(first_plane + at, windows[one] & 0xffff, one);
    }
  }
  // Stores d. Returns false if an element is not ordinary.
  __device__ bool store(unsigned char* to, const Source& source, const typename Source::Channel* channels, int count,
                        int first, int all, const unsigned* windows, int stride) const {
    bool ordinary = true;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int unit = first + threadIdx.x / 4 + i * (THREADS / 4), at = plane(unit, all);
      if (at >= count) continue;
      float d[2][4] = {};
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        if (at + j < count) source.finish_inside(channels[at + j], raw[i][j], d[j]);
      }
      unsigned char* const place = to + (windows[window(unit, all)] >> 18) * BfGradient::kPitch;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        ordinary =
            BfGradient::store(place + (e / 2 * stride + e % 2) * BfGradient::kPitch, at, d[0][e], d[1][e]) & ordinary;
      }
    }
    return ordinary;
  }
};

// Pairs of planes of kUnits pixels of a thread, from pixel `first` on; x: the planes of an image.
template <int THREADS>
struct Pixels8 {
  static constexpr int kUnits = THREADS / 128, kStep = kUnits * THREADS / 8;
  float values[kUnits][2];

  __device__ void load(const float* x, int count, int first, int size) {
#pragma unroll
    for (int i = 0; i < 2 * kUnits; ++i) {
      const int pixel = first + threadIdx.x / 8 + i / 2 * (THREADS / 8), at = plane() + i % 2;
      values[i / 2][i % 2] = pixel < size && at < count ? x[at * size + pixel] : 0.0f;
    }
  }
  __device__ static int plane() { return static_cast<int>(threadIdx.x) % 8 * 2; }
  __device__ bool store(unsigned char* to, int first, const warpwise::MmaBand& band, const int* offsets) const {
    bool ordinary = true;
#pragma unroll
    for (int i = 0; i < kUnits; ++i) {
      const int pixel = first + threadIdx.x / 8 + i * (THREADS / 8);
      if (pixel >= band.pixels) continue;
      unsigned char* const place = to + (offsets[pixel] + band.tap(4)) / 4 * BfImage::kPitch;
      ordinary = BfImage::store(place, plane(), values[i][0], values[i][1]) & ordinary;
    }
    return ordinary;
  }
};

// Which of the two gradients a warp computes.
template <bool INPUT>
struct Role {
  static constexpr bool kInput = INPUT;
};

// dx: (n, c, h, w), partials: (parts, k c 9) of dw, dgamma and dbeta; the other arguments are those of GradConvolved. k
// is at most 32, h and w are even. Half of the warps multiply for dx and half for dw. Grid: chunks of 16 channels, and
// `splits` of the images. With 512 threads a block has one image. It loads everything but the channels' sums before the
// previous kernel, which writes these sums, has completed: this kernel starts when all blocks of the previous one run,
// and then the kernels before that one have completed.
template <int THREADS, bool ADDED>
__global__ void __launch_bounds__(THREADS, 512 / THREADS) gradients(
    const float* y, const float* dy, const float* dmean, const float* dvar, const float* dconv, const float* mean,
    const float* var, const float* gamma, const float* beta, const float* sums, int parts, const float* x,
    const float* f, float* dx, float* dgamma, float* dbeta, float* partials, int n, int c, int h, int w, int k,
    float eps, int splits) {
  using Source = GradConvolved<true, ADDED>;
  using Filters = warpwise::BfFilters;
  constexpr bool kOnce = THREADS == 512;
  constexpr int kWarps = THREADS / warpwise::kWarp, kRoleWarps = kWarps / 2, kPlanes = warpwise::kMmaPlanes;
  constexpr int kCount = (28 + kRoleWarps - 1) / kRoleWarps;  // n-tiles of dx
  using Weights = warpwise::BfWeights<kRoleWarps>;
  __shared__ typename Source::Channel channels[warpwise::kMmaFilters];
  __shared__ bool fallbacks[kWarps];
  extern __shared__ __align__(16) unsigned char shared[];

  const int tiles = (c + kPlanes - 1) / kPlanes, split = blockIdx.x / tiles,
            first_channel = blockIdx.x % tiles * kPlanes;
  const warpwise::MmaBand band(0, h, h, w);
  const int positions = (h + 2) * (w + 2), all = h / 2 * (w / 2), units = (k + 7) / 8 * all;
  unsigned char *const d = shared, *const planes = d + positions * BfGradient::kPitch;
  unsigned char* const filters = planes + positions * BfImage::kPitch;
  int* const offsets = reinterpret_cast<int*>(filters + Filters::kBytes);
  auto* const windows = reinterpret_cast<unsigned*>(offsets + band.entries());
  const auto source = grad_convolved<true, ADDED>(y, dy, dmean, dvar, dconv, mean, var, gamma, beta, sums, parts,
                                                  dgamma, dbeta, n, h, w, k, eps);

  warpwise::mma_zero<THREADS>(reinterpret_cast<float*>(shared), positions * (BfGradient::kPitch + BfImage::kPitch) / 4);
  band.fill_offsets<THREADS>(offsets);
  warpwise::mma_list_windows<THREADS>(windows, band);
  __syncthreads();
  if (!kOnce) warpwise::wait_for_previous_kernel();
  Windows8<THREADS, Source> of_windows;
  Pixels8<THREADS> of_pixels;
  const auto image_at = [&](int image) { return x + (static_cast<long long>(image) * c + first_channel) * h * w; };
  of_windows.load(source, split * k, k, 0, all, windows);
  of_pixels.load(image_at(split), c - first_channel, 0, h * w);
  const Filters::Loaded<THREADS> loaded(f, first_channel, k, c);
  if (kOnce) warpwise::wait_for_previous_kernel();
  source.prepare(channels, 0, k, split == 0 && first_channel == 0);
  const bool ordinary = loaded.store(filters);
  __syncthreads();

  // Fills the planes; returns false if an element is not ordinary. The first loads of the first image are complete.
  const auto fill = [&](int image) {
    bool found = ordinary;
    for (int first = 0; first < (kOnce ? 1 : units); first += of_windows.kStep) {
      if (!kOnce && (image > split || first > 0)) of_windows.load(source, image * k, k, first, all, windows);
      found = of_windows.store(d, source, channels, k, first, all, windows, band.stride) & found;
    }
    for (int first = 0; first < (kOnce ? 1 : band.pixels); first += of_pixels.kStep) {
      if (!kOnce && (image > split || first > 0)) of_pixels.load(image_at(image), c - first_channel, first, h * w);
      found = of_pixels.store(planes, first, band, offsets) & found;
    }
    return found;
  };
  const bool once = kOnce && fill(split);  // before the sums of dw take registers
  const auto multiply = [&](auto role) {
    constexpr bool kInput = decltype(role)::kInput;
    Weights weights;
    for (int image = split; image < (kOnce ? split + 1 : n); image += splits) {
      const bool found = kOnce ? once : fill(image);
      const bool every = __all_sync(warpwise::kFullMask, found);
      if (threadIdx.x % warpwise::kWarp == 0) fallbacks[threadIdx.x / warpwise::kWarp] = !every;
      block_sync();
      bool fallback = false;
#pragma unroll
      for (int warp = 0; warp < kWarps; ++warp) fallback = fallback || fallbacks[warp];
      if constexpr (kInput) {
        float added[kCount][1][4] = {};
        if (fallback) {
          warpwise::bf_add_input_in_float<kRoleWarps>(added, filters, d, offsets, band);
        } else {
          warpwise::bf_add_input<kRoleWarps>(added, filters, d, offsets, band);
        }
        float* const to = dx + (static_cast<long long>(image) * c + first_channel) * h * w;
        warpwise::mma_store_planes<kRoleWarps>(to, added, c - first_channel, band);
      } else if (fallback) {
        weights.add_in_float(planes, d, offsets, band);
      } else {
        weights.add(planes, d, offsets, band);
      }
      block_sync();  // the reads of shared memory are complete
    }
    for (int turn = 0; turn < Weights::kSplits; ++turn) {
      if (!kInput && turn == Weights::split()) weights.store(reinterpret_cast<float*>(shared));
      block_sync();
    }
  };
  if (threadIdx.x < THREADS / 2) {
    multiply(Role<true>());
  } else {
    multiply(Role<false>());
  }

  const int elements = min(kPlanes, c - first_channel) * warpwise::kMmaTaps;
  for (int i = threadIdx.x / warpwise::kWarp; i < k; i += kWarps) {
    float* const to = partials + ((static_cast<long long>(split) * k + i) * c + first_channel) * warpwise::kMmaTaps;
    const float* const from = reinterpret_cast<const float*>(shared) + i * kPlanes * warpwise::kMmaTaps;
    for (int e = threadIdx.x % warpwise::kWarp; e < elements; e += warpwise::kWarp) to[e] = from[e];
  }
}
