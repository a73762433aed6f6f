// Few products per output in groups of few filters, as in depthwise convolutions: four adjacent pixels of one filter
// per thread, from the image in L1.
//
// k04's tiles have 16 filters of one group, of which a depthwise convolution has one. Here a thread loads a row of
// S + 3 pixels for 4 S products, and a tap of the filter for four of them.

#include <warpwise/core/pack.cuh>

constexpr int kThreads = 256, kPixels = 4;

// x: (n, c, h, w), f: (k, c / groups, r, s), bias: (k) or null, y: (n, k, p, q). One thread for four pixels of a row.
// SIDE: r and s, with dilation 1 and stride STRIDE, or 0 for any sizes.
template <int SIDE, int STRIDE>
__global__ void __launch_bounds__(kThreads) conv2d_four_pixels(const float* x, const float* f, const float* bias,
                                                               float* y, int n, int c, int h, int w, int k, int r,
                                                               int s, int p, int q, int stride_h, int stride_w,
                                                               int pad_h, int pad_w, int dilation_h, int dilation_w,
                                                               int groups) {
  if (SIDE > 0) {
    r = s = SIDE;
    stride_h = stride_w = STRIDE;
    dilation_h = dilation_w = 1;
  }
  const int strips = (q + kPixels - 1) / kPixels, channels = c / groups;
  const int at = blockIdx.x * kThreads + threadIdx.x, line = at / strips, plane = line / p;
  const int image = plane / k, filter = plane - image * k;
  if (image >= n) return;
  const int row = (line - plane * p) * stride_h - pad_h, first = (at - line * strips) * kPixels;
  const int left = first * stride_w - pad_w;
  const float* from = x + (static_cast<long long>(image) * c + filter / (k / groups) * channels) * h * w;
  const float* taps = f + static_cast<long long>(filter) * channels * r * s;
  float sums[kPixels];
#pragma unroll
  for (int j = 0; j < kPixels; ++j) sums[j] = bias ? bias[filter] : 0.0f;
  for (int channel = 0; channel < channels; ++channel) {
#pragma unroll
    for (int a = 0; a < r; ++a) {
      const int at_h = row + a * dilation_h;
      if (at_h >= 0 && at_h < h) {
        const float* const pixels = from + at_h * w;
        if (SIDE > 0) {
          constexpr int kLoaded = SIDE + (kPixels - 1) * STRIDE;
          float values[kLoaded > 0 ? kLoaded : 1];
#pragma unroll
          for (int b = 0; b < kLoaded; ++b) {
            values[b] = left + b >= 0 && left + b < w ? pixels[left + b] : 0.0f;
          }
#pragma unroll
          for (int b = 0; b < SIDE; ++b) {
            const float tap = taps[a * SIDE + b];
#pragma unroll
            for (int j = 0; j < kPixels; ++j) sums[j] += tap * values[j * STRIDE + b];
          }
        } else {
          for (int b = 0; b < s; ++b) {
            const float tap = taps[a * s + b];
#pragma unroll
            for (int j = 0; j < kPixels; ++j) {
              const int at_w = left + j * stride_w + b * dilation_w;
              if (at_w >= 0 && at_w < w) sums[j] += tap * pixels[at_w];
            }
          }
        }
      }
    }
    from += h * w;
    taps += r * s;
  }
  float* const to = y + static_cast<long long>(line) * q + first;
  if (q % kPixels == 0 && warpwise::aligned(static_cast<const float*>(y))) {
    *warpwise::packs(to) = {{sums[0], sums[1], sums[2], sums[3]}};
    return;
  }
#pragma unroll
  for (int j = 0; j < kPixels; ++j) {
    if (first + j < q) to[j] = sums[j];
  }
}
