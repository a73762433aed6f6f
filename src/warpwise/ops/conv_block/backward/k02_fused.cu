// From the pooled gradient to the gradient of the convolution in two launches, which recompute the maxima.
//
// A thread takes a 2 x 2 window and recomputes which pixel is the maximum, so no index is stored. The first launch
// divides the sums of a channel among several blocks, the second writes the gradient of the convolution, from which the
// implicit GEMMs of conv2d's backward compute dx and dw.

#include <warpwise/core/channel.cuh>

constexpr int kThreads = warpwise::kChannelThreads;

// A window of y, which may cross the border: its values, and the index of the first maximum above 0, or -1.
struct Window {
  float values[4];
  bool inside[4];
  int best;
};

// y: a plane (h, w); r, c: the window's row and column.
__device__ inline Window window_of(const float* y, int r, int c, int h, int w, float m, float scale, float shift) {
  Window window;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const int row = 2 * r + e / 2, column = 2 * c + e % 2;
    window.inside[e] = row < h && column < w;
    window.values[e] = window.inside[e] ? y[row * w + column] : 0.0f;
  }
  window.best = -1;
  float best = 0.0f;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const float normal = (window.values[e] - m) * scale + shift;
    if (normal > best) {
      best = normal;
      window.best = e;
    }
  }
  return window;
}

// dgamma = sum g h, dbeta = sum g, with h = (y - mean) rstd and g the gradient of the normalised value. y: (n, k, h,
// w), dy: (n, k, h / 2, w / 2) or null, the others: (k). Grid: (parts, k).
__global__ void __launch_bounds__(kThreads) channel_gradients(const float* y, const float* dy, const float* mean,
                                                              const float* var, const float* gamma, const float* beta,
                                                              float* dgamma, float* dbeta, float* partials,
                                                              int* semaphores, int n, int k, int h, int w, float eps) {
  const int channel = blockIdx.y, oh = h / 2, ow = w / 2, windows = oh * ow;
  const float m = mean[channel], rstd = rsqrtf(var[channel] + eps);
  const float scale = gamma[channel] * rstd, shift = beta[channel];
  float sum = 0.0f, dot = 0.0f;
  for (int i = blockIdx.x * kThreads + threadIdx.x; dy && i < n * windows; i += gridDim.x * kThreads) {
    const int image = i / windows, at = i - image * windows, r = at / ow;
    const long long plane = static_cast<long long>(image) * k + channel;
    const Window window = window_of(y + plane * h * w, r, at - r * ow, h, w, m, scale, shift);
    const float gradient = dy[plane * windows + at];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (window.best == e) {
        sum += gradient;
        dot += gradient * (window.values[e] - m) * rstd;
      }
    }
  }
  if (!warpwise::channel_sums(sum, dot, partials, semaphores) || threadIdx.x > 0) return;
  dgamma[channel] = dot;
  dbeta[channel] = sum;
}

// d: (n, k, h, w), the gradient of the convolution: a g + b (y - mean) + c, plus dconv. dmean, dvar: (k), dconv: (n, k,
// h, w), each may be null. One thread per window, including those that cross the border.
__global__ void __launch_bounds__(kThreads) grad_convolved(const float* y, const float* dy, const float* dmean,
                                                           const float* dvar, const float* dconv, const float* mean,
                                                           const float* var, const float* gamma, const float* beta,
                                                           const float* dgamma, const float* dbeta, float* d, int n,
                                                           int k, int h, int w, float eps) {
  const int across = (w + 1) / 2, windows = (h + 1) / 2 * across, i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= n * k * windows) return;
  const int plane = i / windows, at = i - plane * windows, r = at / across, c = at - r * across, channel = plane % k;
  const float m = mean[channel], rstd = rsqrtf(var[channel] + eps);
  const float inverse = 1.0f / (static_cast<float>(n) * static_cast<float>(h * w));
  const float scale = gamma[channel] * rstd;
  const float slope = (2.0f * (dvar ? dvar[channel] : 0.0f) - scale * rstd * dgamma[channel]) * inverse;
  const float constant = ((dmean ? dmean[channel] : 0.0f) - scale * dbeta[channel]) * inverse;
  const long long start = static_cast<long long>(plane) * h * w;
  const Window window = window_of(y + start, r, c, h, w, m, scale, beta[channel]);
  const bool pooled = dy && r < h / 2 && c < w / 2;
  const float gradient = pooled ? dy[(static_cast<long long>(plane) * (h / 2) + r) * (w / 2) + c] : 0.0f;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    if (!window.inside[e]) continue;
    const long long to = start + (2 * r + e / 2) * w + 2 * c + e % 2;
    const float chosen = window.best == e ? scale * gradient : 0.0f;
    d[to] = chosen + slope * (window.values[e] - m) + constant + (dconv ? dconv[to] : 0.0f);
  }
}
