// NHWC, and (N, C): a thread takes up to 16 bytes of adjacent channels of many rows, so that a warp reads whole
// sectors.

#include <warpwise/core/channels_last.cuh>
#include <warpwise/core/pack.cuh>

#include "gradient.cuh"

constexpr int kThreads = warpwise::kRowThreads;

// sums: (channels, 2) = sum dy, sum dy h, with h = (x - mean) * rstd; dw, db: (channels) or null. x: (rows, channels);
// dy likewise, or null for zeros. Grid: (parts, tiles of channels), as in channels_last.cuh.
template <class T, class W, int VECTOR>
__global__ void __launch_bounds__(kThreads) gradient_column_sums(const T* dy, const T* x, const float* mean,
                                                                 const float* var, float* sums, W* dw, W* db,
                                                                 float* partials, int* semaphores, long long rows,
                                                                 int channels, int across, float eps) {
  const auto read = [&](long long offset) { return read_pair<T, VECTOR>(dy, x, offset); };
  const auto own = warpwise::Columns<VECTOR>::of(across, channels);
  float m[VECTOR] = {}, rstd[VECTOR] = {}, gradients[VECTOR] = {}, dots[VECTOR] = {};
  if (own.valid) {
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) {
      m[e] = mean[own.channel + e];
      rstd[e] = rsqrtf(var[own.channel + e] + eps);
    }
  }
  if (dy) {
    own.for_each_row(rows, channels, read, [&](long long, const Pair<T, VECTOR>& pair) {
#pragma unroll
      for (int e = 0; e < VECTOR; ++e) {
        const float g = pair.gradient(e);
        gradients[e] += g;
        dots[e] += g * (pair.input(e) - m[e]) * rstd[e];
      }
    });
  }
  float sum, dot;
  if (!warpwise::column_sums(gradients, dots, own, channels, partials, semaphores, sum, dot)) return;
  const int lanes = across * VECTOR, channel = blockIdx.y * lanes + threadIdx.x;
  if (threadIdx.x < lanes && channel < channels) store_sums(sums, dw, db, channel, sum, dot);
}

// dx: (rows, channels); dmean, dvar, weight: (channels) or null.
template <class T, class W, int VECTOR>
__global__ void __launch_bounds__(kThreads) gradient_of_rows(const T* dy, const float* dmean, const float* dvar,
                                                             const T* x, const W* weight, const float* mean,
                                                             const float* var, const float* sums, T* dx, long long rows,
                                                             int channels, int across, float eps) {
  const auto read = [&](long long offset) { return read_pair<T, VECTOR>(dy, x, offset); };
  const auto own = warpwise::Columns<VECTOR>::of(across, channels);
  if (!own.valid) return;
  Line lines[VECTOR];
#pragma unroll
  for (int e = 0; e < VECTOR; ++e) {
    const int channel = own.channel + e;
    const float sum = sums[2 * channel], dot = sums[2 * channel + 1];
    lines[e] = Line::of(channel, static_cast<float>(rows), dmean, dvar, weight, mean, var, sum, dot, eps);
  }
  own.for_each_row(rows, channels, read, [&](long long offset, const Pair<T, VECTOR>& pair) {
    warpwise::Elements<T, VECTOR> result;
#pragma unroll
    for (int e = 0; e < VECTOR; ++e)
      result.at[e] = warpwise::from_float<T>(lines[e].at(pair.gradient(e), pair.input(e)));
    *warpwise::packs<sizeof(T) * VECTOR>(dx + offset) = result;
  });
}
