// Tiles of the convolution's gradient are computed in shared memory; dx and dw are direct convolutions of them.
//
// k02 stores that gradient, and its matrix products gather each element of it nine times, with two integer divisions
// for each. Here it is never stored: blocks recompute it from the convolution and the pooled gradient. One launch has
// the blocks of dw first and those of dx after them, which are independent; a third launch adds the parts of dw.

#include <warpwise/core/conv3x3_weights.cuh>
#include <warpwise/core/previous_kernel.cuh>

#include "grad_convolved.cuh"

constexpr int kThreads = warpwise::kConvThreads;

// sums: (k, parts, 2): sum g and sum g (y - mean) rstd of a part of a channel, g the gradient of the normalised value.
// Grid: (parts, k).
template <bool PAIRS>
__global__ void __launch_bounds__(kThreads) channel_parts(const float* y, const float* dy, const float* mean,
                                                          const float* var, const float* gamma, const float* beta,
                                                          float* sums, int n, int k, int h, int w, float eps) {
  __shared__ float warp_values[warpwise::kWarp];
  const int channel = blockIdx.y, windows = (h / 2) * (w / 2), ow = w / 2;
  const Windows<PAIRS, false> source{y, dy, nullptr, h, w};
  const int start = blockIdx.x * kThreads + threadIdx.x, step = gridDim.x * kThreads;
  int image = start / windows, r = start % windows / ow, c = start % ow;
  const int image_step = step / windows, row_step = step % windows / ow, column_step = step % ow, oh = h / 2;
  warpwise::wait_for_previous_kernel();
  const float m = mean[channel], rstd = rsqrtf(var[channel] + eps);
  const float scale = gamma[channel] * rstd, shift = beta[channel];
  float sum = 0.0f, dot = 0.0f;
#pragma unroll 4
  while (dy && image < n) {
    const auto raw = source.load(image * k + channel, r, c);
    const int at = chosen(raw.y, m, scale, shift);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      sum += at == e ? raw.dy : 0.0f;
      dot += at == e ? raw.dy * (raw.y[e] - m) : 0.0f;
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
  sum = warpwise::block_reduce<warpwise::Sum, kThreads>(sum, warp_values);
  dot = warpwise::block_reduce<warpwise::Sum, kThreads>(dot * rstd, warp_values);
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
    float eps, int weight_blocks, int share, int weight_rows, int weight_strips, int input_rows, int input_strips) {
  warpwise::wait_for_previous_kernel();
  extern __shared__ __align__(16) float shared[];
  const auto source = grad_convolved<PAIRS, ADDED>(y, dy, dmean, dvar, dconv, mean, var, gamma, beta, sums, parts,
                                                   dgamma, dbeta, n, h, w, k, eps);
  warpwise::conv3x3_gradients<CHANNELS, FILTERS, EACH, INPUT>(shared, source, x, f, dx, partials, nullptr, n, c, h, w,
                                                              k, weight_blocks, share, weight_rows, weight_strips,
                                                              input_rows, input_strips);
}
