// Tiles of the convolution's gradient are computed in shared memory; dx and dw are direct convolutions of them.
//
// k02 stores that gradient, and its matrix products gather each element of it nine times, with two integer divisions
// for each. Here it is never stored: blocks recompute it from the convolution and the pooled gradient. One launch has
// the blocks of dw first and those of dx after them, which are independent; a third launch adds the parts of dw.

#include <warpwise/core/conv3x3_weights.cuh>
#include <warpwise/core/previous_kernel.cuh>

#include "grad_convolved.cuh"

constexpr int kThreads = warpwise::kConvThreads;

// The sums over every gridDim.x-th block of windows of the channel, of dy and of dy times the distance from the mean of
// the first maximum above 0; y: (n, k, h, w).
template <bool PAIRS>
__device__ inline void add_windows(const float* y, const float* dy, float mean, float scale, float shift, int n, int k,
                                   int h, int w, float& sum, float& dot) {
  const int windows = (h / 2) * (w / 2), ow = w / 2, oh = h / 2;
  const Windows<PAIRS, false> source{y, dy, nullptr, h, w};
  const int start = blockIdx.x * kThreads + threadIdx.x, step = gridDim.x * kThreads;
  int image = start / windows, r = start % windows / ow, c = start % ow;
  const int image_step = step / windows, row_step = step % windows / ow, column_step = step % ow;
#pragma unroll 4
  while (image < n) {
    const auto raw = source.load(image * k + blockIdx.y, r, c);
    const int at = chosen(raw.y, mean, scale, shift);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      sum += at == e ? raw.dy : 0.0f;
      dot += at == e ? raw.dy * (raw.y[e] - mean) : 0.0f;
    }
    c += column_step;
    r += row_step;
    image += image_step;
    if (c >= ow) {
      c -= ow;
      ++r;
    }
    if (r >= oh) {
      r -= oh;
      ++image;
    }
  }
}

// The sums of dy and of dy (out - shift) where out > 0; out: (n, k, windows).
__device__ inline void add_pooled(const float* out, const float* dy, float shift, int n, int k, int windows, float& sum,
                                  float& dot) {
  constexpr int kBatch = 4;
  const int start = blockIdx.x * kThreads + threadIdx.x, step = gridDim.x * kThreads;
  int image = start / windows, at = start - image * windows;
  const int image_step = step / windows, at_step = step - image_step * windows;
  while (image < n) {
    float pooled[kBatch], gradient[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int from = (image * k + blockIdx.y) * windows + at;
      pooled[i] = image < n ? out[from] : 0.0f;
      gradient[i] = image < n ? dy[from] : 0.0f;
      at += at_step;
      image += image_step;
      if (at >= windows) {
        at -= windows;
        ++image;
      }
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      sum += pooled[i] > 0.0f ? gradient[i] : 0.0f;
      dot += pooled[i] > 0.0f ? gradient[i] * (pooled[i] - shift) : 0.0f;
    }
  }
}

// sums: (k, parts, 2): sum g and sum g (y - mean) rstd of a part of a channel, g the gradient of the normalised value.
// g is not 0 where out: (n, k, h / 2, w / 2), the output, is positive, and there (y - mean) rstd is (out - beta) /
// gamma, so a quarter of the values is read. Where gamma is small, or out is null, the sums are those of y. Grid:
// (parts, k).
template <bool PAIRS>
__global__ void __launch_bounds__(kThreads) channel_parts(const float* y, const float* out, const float* dy,
                                                          const float* mean, const float* var, const float* gamma,
                                                          const float* beta, float* sums, int n, int k, int h, int w,
                                                          float eps) {
  __shared__ float warp_values[warpwise::kWarp];
  const int channel = blockIdx.y;
  warpwise::wait_for_previous_kernel();
  const float scale = gamma[channel], shift = beta[channel], size = fabsf(scale);
  const float m = mean[channel], rstd = rsqrtf(var[channel] + eps);
  const bool pooled = out && size > 1e-20f && 4.0f * size >= fabsf(shift);
  float sum = 0.0f, dot = 0.0f;
  if (dy && pooled) add_pooled(out, dy, shift, n, k, (h / 2) * (w / 2), sum, dot);
  if (dy && !pooled) add_windows<PAIRS>(y, dy, m, scale * rstd, shift, n, k, h, w, sum, dot);
  sum = warpwise::block_reduce<warpwise::Sum, kThreads>(sum, warp_values);
  dot = warpwise::block_reduce<warpwise::Sum, kThreads>(pooled ? dot / scale : dot * rstd, warp_values);
  if (threadIdx.x > 0) return;
  sums[2 * (channel * gridDim.x + blockIdx.x)] = sum;
  sums[2 * (channel * gridDim.x + blockIdx.x) + 1] = dot;
}

// The parameters are those of warpwise::conv3x3_gradients; partials: (splits, k c 9).
template <int CHANNELS, int FILTERS, int EACH, bool INPUT, bool PAIRS, bool ADDED>
__global__ void __launch_bounds__(kThreads, CHANNELS == 1 && !INPUT ? 4 : 2) gradients(
    const float* y, const float* dy, const float* dmean, const float* dvar, const float* dconv, const float* mean,
    const float* var, const float* gamma, const float* beta, const float* sums, int parts, const float* x,
    const float* f, float* dx, float* dgamma, float* dbeta, float* partials, int n, int c, int h, int w, int k,
    float eps, int weight_blocks, int share, int weight_rows, int weight_strips, int input_rows, int input_strips,
    int input_splits, int input_share) {
  warpwise::wait_for_previous_kernel();
  extern __shared__ __align__(16) float shared[];
  const auto source = grad_convolved<PAIRS, ADDED>(y, dy, dmean, dvar, dconv, mean, var, gamma, beta, sums, parts,
                                                   dgamma, dbeta, n, h, w, k, eps);
  warpwise::conv3x3_gradients<CHANNELS, FILTERS, EACH, INPUT>(shared, source, x, f, dx, partials, nullptr, n, c, h, w,
                                                              k, weight_blocks, share, weight_rows, weight_strips,
                                                              input_rows, input_strips, input_splits, input_share);
}
