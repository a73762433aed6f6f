// The gradient of the convolution, recomputed from the convolution and the pooled gradient, as a source of
// core/conv3x3.cuh.
#pragma once

#include <warpwise/core/conv3x3.cuh>

// Windows of y: (planes, h, w), whose first maximum above 0 receives the gradient, and of `added`, which is read only
// if ADDED. PAIRS: w is even, and both are 8-byte aligned.
template <bool PAIRS, bool ADDED>
struct Windows {
  const float *y, *dy, *added;  // dy: (planes, h / 2, w / 2) or null
  int h, w;
  struct Raw {
    float y[4], added[ADDED ? 4 : 1], dy;
  };

  // Window (r, c), which may cross the border; zeros outside the image.
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

  // Window number `window` of a plane, whose first pixel is `at`; requires PAIRS, h and w even.
  __device__ Raw load_inside(int plane, int at, int window) const {
    Raw raw;
    read_pairs(raw.y, y + plane * h * w + at);
    load_pooled(raw, plane, at, window);
    return raw;
  }
  // The same without y.
  __device__ void load_pooled(Raw& raw, int plane, int at, int window) const {
    if constexpr (ADDED) read_pairs(raw.added, added + plane * h * w + at);
    raw.dy = dy ? dy[plane * (h / 2) * (w / 2) + window] : 0.0f;
  }
  __device__ void read_pairs(float (&values)[4], const float* from) const {
    *reinterpret_cast<warpwise::Pack<float, 8>*>(values) = *warpwise::packs<8>(from);
    *reinterpret_cast<warpwise::Pack<float, 8>*>(values + 2) = *warpwise::packs<8>(from + w);
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

// The gradient of the convolution, a g + b (y - mean) + c, plus dconv if ADDED, as a source of core/conv3x3.cuh.
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

  // Eight lanes per filter add its partial sums; if `publish` (one block per filter), they write dgamma, dbeta.
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

  // The same for a window inside of the image.
  __device__ void finish_inside(const Channel& channel, const Raw& raw, float (&d)[4]) const {
    float normal[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float distance = raw.y[e] - channel.mean;
      normal[e] = distance * channel.scale + channel.shift;
      d[e] = channel.slope * distance + channel.constant;
      if constexpr (ADDED) d[e] += raw.added[e];
    }
    const float upper = fmaxf(normal[0], normal[1]), lower = fmaxf(normal[2], normal[3]), best = fmaxf(upper, lower);
    const bool below = lower > upper, right = best > (below ? normal[2] : normal[0]);
    const float gradient = best > 0.0f ? channel.scale * raw.dy : 0.0f;
    d[0] += below || right ? 0.0f : gradient;
    d[1] += !below && right ? gradient : 0.0f;
    d[2] += below && !right ? gradient : 0.0f;
    d[3] += below && right ? gradient : 0.0f;
  }
};

template <bool PAIRS, bool ADDED>
__device__ inline GradConvolved<PAIRS, ADDED> grad_convolved(const float* y, const float* dy, const float* dmean,
                                                             const float* dvar, const float* dconv, const float* mean,
                                                             const float* var, const float* gamma, const float* beta,
                                                             const float* sums, int parts, float* dgamma, float* dbeta,
                                                             int n, int h, int w, int k, float eps) {
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
  return source;
}
