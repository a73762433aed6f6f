// One input channel: the statistics follow from the moments of the input's patches, so the convolution is not stored.
//
// The first launch reads the input and adds products of neighbouring pixels. The second computes mean and variance of
// every filter from them, convolves, normalises and pools. k03 writes and reads K times the size of the input.

#include <warpwise/core/partial_sums.cuh>
#include <warpwise/core/previous_kernel.cuh>

#include "../one_channel.cuh"

constexpr int kThreads = 256, kEach = 4, kGroups = 8;  // kEach filters per warp, at most kGroups groups

// moments: (kMoments), from parts: (gridDim.x, kPart), the sums of moment_sums, which the last block adds. A block has
// `share` units: bands of images. inverse = 1 / (n h w).
template <int VECTOR, int THREADS>
__global__ void __launch_bounds__(THREADS, 512 / THREADS) input_moments(const float* x, float* parts, double* moments,
                                                                        int* semaphore, double inverse, int n, int h,
                                                                        int w, int rows, int bands, int each, int pitch,
                                                                        int share) {
  warpwise::wait_for_previous_kernel();
  extern __shared__ __align__(16) float tile[];
  const float sample = one_channel::sample_of(x, n * h * w);
  one_channel::Tiles<THREADS, VECTOR> tiles{x, h, w, rows, bands, each, pitch, 0.0f};
  const int first = blockIdx.x * share, last = min(first + share, n * bands);
  one_channel::moment_sums(tile, tiles, sample, first, last, parts + blockIdx.x * one_channel::kPart);
  if (!warpwise::is_last_block(semaphore, gridDim.x)) return;
  __shared__ one_channel::Moments combined;
  one_channel::combine_moments<(THREADS < 256 ? THREADS : 256)>(combined, parts, gridDim.x, inverse);
  one_channel::store_moments(moments, combined);
}

// The larger value, or NaN if either is NaN.
__device__ inline float max_or_nan(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
  return larger;
#else
  return a > b || a != a ? a : b;
#endif
}

// out: (n, k, h / 2, w / 2), mean, var: (k) from x: (n, 1, h, w), f: (k, 9), and the moments of input_moments. Grid:
// (blocks of `share` units, tiles of kEach filters for each of 2^group_bits groups); the warps of a group divide the
// windows.
template <int VECTOR>
__global__ void __launch_bounds__(kThreads, 2) normalise_and_pool(const float* x, const float* f, const float* gamma,
                                                                  const float* beta, const double* given, float* out,
                                                                  float* mean, float* var, int n, int h, int w, int k,
                                                                  int rows, int bands, int each, int pitch, int share,
                                                                  int group_bits, float eps) {
  constexpr int kLanes = 16, kAtOnce = kThreads / kLanes;  // threads of a filter's statistics, and filters
  extern __shared__ __align__(16) float tile[];
  __shared__ one_channel::Moments moments;
  __shared__ float scaled[kEach * kGroups][one_channel::kTaps + 1];  // filters times gamma rstd, and the constant
  auto* const windows = reinterpret_cast<unsigned*>(tile + each * (rows + 2) * pitch);
  const int oh = h / 2, ow = w / 2, plane = oh * ow;
  one_channel::Tiles<kThreads, VECTOR> tiles{x, h, w, rows, bands, each, pitch, 0.0f};
  const int groups = 1 << group_bits, top = blockIdx.y * kEach * groups;
  const int first = blockIdx.x * share, last = min(first + share, n * bands);
  int image = bands == 1 ? first : first / bands, band = first - image * bands;
  one_channel::list_windows(windows, tiles, ow);
  warpwise::wait_for_previous_kernel();

  const int tap = threadIdx.x % kLanes;
  float weights[kEach * kGroups / kAtOnce], gammas[kEach * kGroups / kAtOnce], betas[kEach * kGroups / kAtOnce];
#pragma unroll
  for (int i = 0; i < kEach * kGroups / kAtOnce; ++i) {
    const int filter = top + threadIdx.x / kLanes + i * kAtOnce;
    weights[i] = filter < k && tap < one_channel::kTaps ? f[filter * one_channel::kTaps + tap] : 0.0f;
    gammas[i] = filter < k ? gamma[filter] : 0.0f;
    betas[i] = filter < k ? beta[filter] : 0.0f;
  }
  tiles.load(tile, image, band * rows, min(each, last - first), [&] {
    one_channel::load_moments(moments, given);
    tiles.origin = moments.origin;
  });
  tiles.fill_border(tile);

#pragma unroll
  for (int turn = 0; turn < kEach * kGroups / kAtOnce; ++turn) {
    const int i = threadIdx.x / kLanes + turn * kAtOnce, filter = top + i;
    if (i >= kEach * groups) continue;
    const float weight = weights[turn];
    double centre = 0.0, spread = 0.0, total = weight;
    for (int other = 0; other < one_channel::kTaps; ++other) {
      const double along = __shfl_sync(warpwise::kFullMask, weight, other, kLanes);
      if (tap < one_channel::kTaps) spread += along * moments.covariance[tap][other];
    }
    if (tap < one_channel::kTaps) centre = weight * moments.mean[tap];
    spread *= weight;
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      centre += __shfl_xor_sync(warpwise::kFullMask, centre, distance);
      spread += __shfl_xor_sync(warpwise::kFullMask, spread, distance);
      total += __shfl_xor_sync(warpwise::kFullMask, total, distance);
    }
    const float variance = spread < 0.0 ? 0.0f : static_cast<float>(spread);  // NaN is kept
    const float scale = gammas[turn] * rsqrtf(variance + eps);
    const float constant = betas[turn] - static_cast<float>(centre) * scale;
    if (tap <= one_channel::kTaps) scaled[i][tap] = tap < one_channel::kTaps ? weight * scale : constant;
    if (blockIdx.x == 0 && tap == 0 && filter < k) {
      mean[filter] = static_cast<float>(centre + total * tiles.origin);
      var[filter] = variance;
    }
  }
  __syncthreads();

  const int warp = threadIdx.x / warpwise::kWarp, group = warp & (groups - 1), filter = top + kEach * group;
  const int lane = threadIdx.x % warpwise::kWarp + (warp >> group_bits) * warpwise::kWarp;
  const int step = kThreads >> group_bits;
  float filters[kEach][one_channel::kTaps], constants[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
#pragma unroll
    for (int t = 0; t < one_channel::kTaps; ++t) filters[i][t] = scaled[kEach * group + i][t];
    constants[i] = scaled[kEach * group + i][one_channel::kTaps];
  }

  for (int unit = first; unit < last; unit += each) {
    const int above = band * rows / 2, units = min(each, last - unit);
    const int count = units * min(rows / 2, oh - above) * ow;
    if (unit > first) {
      __syncthreads();
      tiles.load(tile, image, band * rows, units);
      __syncthreads();
    }
    float* const to = out + (static_cast<long long>(image) * k + filter) * plane + above * ow;
    for (int i = lane; i < count; i += step) {
      const unsigned window = windows[i];
      float patch[4][4];
      one_channel::read_patch(patch, tile + (window & 0xffff), pitch);
      const int at = i + static_cast<int>(window >> 16) * ((k - 1) * plane);
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        float values[4];
        one_channel::responses(values, patch, filters[j], constants[j]);
        const float larger = max_or_nan(max_or_nan(values[0], values[1]), max_or_nan(values[2], values[3]));
        if (filter + j < k) to[at + j * plane] = max_or_nan(larger, 0.0f);
      }
    }
    band += each;  // 1, or a number of images where they have one band
    image += bands == 1 ? band : band == bands;
    band = bands == 1 || band == bands ? 0 : band;
  }
}
