// The gradient of the convolution is computed into shared memory, where dx and dw are direct convolutions of it.
//
// k02 stores that gradient, and its matrix products gather each element of it nine times, with two integer divisions
// for each. Here it is never stored: blocks recompute it from the convolution and the pooled gradient. One launch has
// the blocks of dw first and those of dx after them, which are independent; a third launch adds the parts of dw.

#include <warpwise/core/conv3x3.cuh>
#include <warpwise/core/conv3x3_weights.cuh>

constexpr int kThreads = warpwise::kConvThreads;

// Windows of y: (planes, h, w), whose gradient reaches the first maximum above 0, and of `added`, which are read only
// if ADDED. PAIRS: w is even, and both are aligned to 8 bytes.
template <bool PAIRS, bool ADDED>
struct Windows {
  const float *y, *dy, *added;  // dy: (planes, h / 2, w / 2) or null
  int h, w;
  struct Raw {
    float y[4], added[ADDED ? 4 : 1], dy;
  };

  // Window (r, c), also one that the border cuts; zeros outside of the image.
  __device__ Raw load(int plane, int r, int c) const {
    Raw raw = {};
    const int row = 2 * r, column = 2 * c;
    if (row >= h || column >= w) return raw;
    const int at = (plane * h + row) * w + column;
    warpwise::conv_read_window<PAIRS>(raw.y, y + at, row, column, h, w);
    if constexpr (ADDED) warpwise::conv_read_window<PAIRS>(raw.added, added + at, row, column, h, w);
    if (dy && row + 1 < h && column + 1 < w) raw.dy = dy[(plane * (h / 2) + r) * (w / 2) + c];
    return raw;
  }
};

// The pixel of the first maximum above 0, or -1.
__device__ inline int chosen(const float (&y)[4], float mean, float scale, float shift) {
  float best = 0.0f;
  int at = -1;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const float normal = (y[e] - mean) * scale + shift;
    if (normal > best) {
      best = normal;
      at = e;
    }
  }
  return at;
}

// sums: (k, parts, 2): sum g and sum g (y - mean) rstd of a part of a channel, g the gradient of the normalised value.
// Grid: (parts, k).
template <bool PAIRS>
__global__ void __launch_bounds__(kThreads) channel_parts(const float* y, const float* dy, const float* mean,
                                                          const float* var, const float* gamma, const float* beta,
                                                          float* sums, int n, int k, int h, int w, float eps) {
  __shared__ float warp_values[warpwise::kWarp];
  const int channel = blockIdx.y, windows = (h / 2) * (w / 2), ow = w / 2;
  const Windows<PAIRS, false> source{y, dy, nullptr, h, w};
  const float m = mean[channel], rstd = rsqrtf(var[channel] + eps);
  const float scale = gamma[channel] * rstd, shift = beta[channel];
  const int start = blockIdx.x * kThreads + threadIdx.x, step = gridDim.x * kThreads;
  int image = start / windows, r = start % windows / ow, c = start % ow;
  const int image_step = step / windows, row_step = step % windows / ow, column_step = step % ow, oh = h / 2;
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

// The gradient of the convolution, a g + b (y - mean) + c, plus dconv if ADDED, as a source of conv3x3.cuh.
template <bool PAIRS, bool ADDED>
struct GradConvolved : Windows<PAIRS, ADDED> {
  using typename Windows<PAIRS, ADDED>::Raw;
  static constexpr bool kBias = false;
  struct Channel {
    float mean, scale, shift, slope, constant;
  };
  const float *dmean, *dvar, *mean, *var, *gamma, *beta, *sums;
  float *dgamma, *dbeta;
  int k, parts;
  float inverse, eps;

  // Eight lanes a filter add the parts of its sums; in one block of each filter they write dgamma and dbeta.
  __device__ void prepare(Channel* channels, int first, int count, bool publish) const {
    constexpr int kLanes = 8;
    const int place = threadIdx.x / kLanes, lane = threadIdx.x % kLanes, filter = first + min(place, count - 1);
    const float m = mean[filter], rstd = rsqrtf(var[filter] + eps), scale = gamma[filter] * rstd;
    const float shift = beta[filter], through = (dmean ? dmean[filter] : 0.0f);
    const float spread = 2.0f * (dvar ? dvar[filter] : 0.0f);
    float sum = 0.0f, dot = 0.0f;
#pragma unroll 4
    for (int part = lane; part < parts; part += kLanes) {
      const auto pair = *warpwise::packs<8>(sums + 2 * (filter * parts + part));
      sum += pair.at[0];
      dot += pair.at[1];
    }
    sum = warpwise::warp_reduce<warpwise::Sum, kLanes>(sum);
    dot = warpwise::warp_reduce<warpwise::Sum, kLanes>(dot);
    if (lane > 0 || place >= count) return;
    const float slope = (spread - scale * rstd * dot) * inverse, constant = (through - scale * sum) * inverse;
    channels[place] = {m, scale, shift, slope, constant};
    if (!publish) return;
    dgamma[filter] = dot;
    dbeta[filter] = sum;
  }

  __device__ void finish(const Channel& channel, const Raw& raw, int r, int c, float (&d)[4]) const {
    const int at = chosen(raw.y, channel.mean, channel.scale, channel.shift);
    const float gradient = channel.scale * raw.dy;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      d[e] = (at == e ? gradient : 0.0f) + channel.slope * (raw.y[e] - channel.mean) + channel.constant;
      if constexpr (ADDED) d[e] += raw.added[e];
      if (2 * r + e / 2 >= this->h || 2 * c + e % 2 >= this->w) d[e] = 0.0f;
    }
  }
};

// The parameters are those of warpwise::conv3x3_gradients; partials: (splits, k c 9).
template <int CHANNELS, int FILTERS, int EACH, bool INPUT, bool PAIRS, bool ADDED>
__global__ void __launch_bounds__(kThreads, CHANNELS == 1 && !INPUT ? 4 : 2) gradients(
    const float* y, const float* dy, const float* dmean, const float* dvar, const float* dconv, const float* mean,
    const float* var, const float* gamma, const float* beta, const float* sums, int parts, const float* x,
    const float* f, float* dx, float* dgamma, float* dbeta, float* partials, int n, int c, int h, int w, int k,
    float eps, int weight_blocks, int share, int weight_rows, int weight_strips, int input_rows, int input_strips) {
  extern __shared__ __align__(16) float shared[];
  GradConvolved<PAIRS, ADDED> source;
  source.y = y;
  source.dy = dy;
  source.added = dconv;
  source.h = h;
  source.w = w;
  source.dmean = dmean;
  source.dvar = dvar;
  source.mean = mean;
  source.var = var;
  source.gamma = gamma;
  source.beta = beta;
  source.sums = sums;
  source.dgamma = dgamma;
  source.dbeta = dbeta;
  source.k = k;
  source.parts = parts;
  source.inverse = 1.0f / (static_cast<float>(n) * static_cast<float>(h * w));
  source.eps = eps;
  warpwise::conv3x3_gradients<CHANNELS, FILTERS, EACH, INPUT>(shared, source, x, f, dx, partials, nullptr, n, c, h, w,
                                                              k, weight_blocks, share, weight_rows, weight_strips,
                                                              input_rows, input_strips);
}
