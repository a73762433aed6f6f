// Several blocks per channel, as in the forward: one launch for the two sums and one for dx, with 16-byte accesses.
//
// dx = a dy + b (x - mean) + c. The second launch computes a, b and c of each channel from the sums.

#include <warpwise/core/channel.cuh>

constexpr int kThreads = warpwise::kChannelThreads;

// sums: (channels, 2) = sum dy, sum dy h, with h = (x - mean) * rstd; dw, db: (channels) or null. x: (n, channels,
// inner); dy likewise, or null for zeros. Grid: (parts, channels).
template <int VECTOR>
__global__ void __launch_bounds__(kThreads) gradient_sums(const float* dy, const float* x, const float* mean,
                                                          const float* var, float* sums, float* dw, float* db,
                                                          float* partials, int* semaphores, int n, int channels,
                                                          int inner, float eps) {
  const int channel = blockIdx.y;
  const float m = mean[channel], rstd = rsqrtf(var[channel] + eps);
  float sum = 0.0f, dot = 0.0f;
  if (dy) {
    warpwise::for_each_vector<VECTOR>(channel, blockIdx.x, gridDim.x, n, channels, inner, [&](long long offset) {
      const auto gradient = *warpwise::packs<4 * VECTOR>(dy + offset), value = *warpwise::packs<4 * VECTOR>(x + offset);
#pragma unroll
      for (int e = 0; e < VECTOR; ++e) {
        sum += gradient.at[e];
        dot += gradient.at[e] * (value.at[e] - m) * rstd;
      }
    });
  }
  if (!warpwise::channel_sums(sum, dot, partials, semaphores) || threadIdx.x > 0) return;
  sums[2 * channel] = sum;
  sums[2 * channel + 1] = dot;
  if (dw) dw[channel] = dot;
  if (db) db[channel] = sum;
}

// dx: (n, channels, inner); dmean, dvar, weight: (channels) or null. Grid: (parts, channels).
template <int VECTOR>
__global__ void __launch_bounds__(kThreads) gradient_of_input(const float* dy, const float* dmean, const float* dvar,
                                                              const float* x, const float* weight, const float* mean,
                                                              const float* var, const float* sums, float* dx, int n,
                                                              int channels, int inner, float eps) {
  const int channel = blockIdx.y;
  const float inverse = 1.0f / (static_cast<float>(n) * static_cast<float>(inner));
  const float m = mean[channel], rstd = rsqrtf(var[channel] + eps);
  const float a = rstd * (weight ? weight[channel] : 1.0f);
  const float b = (2.0f * (dvar ? dvar[channel] : 0.0f) - a * rstd * sums[2 * channel + 1]) * inverse;
  const float c = ((dmean ? dmean[channel] : 0.0f) - a * sums[2 * channel]) * inverse;
  warpwise::for_each_vector<VECTOR>(channel, blockIdx.x, gridDim.x, n, channels, inner, [&](long long offset) {
    auto values = *warpwise::packs<4 * VECTOR>(x + offset);
    warpwise::Elements<VECTOR> gradient = {};
    if (dy) gradient = *warpwise::packs<4 * VECTOR>(dy + offset);
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) values.at[e] = a * gradient.at[e] + b * (values.at[e] - m) + c;
    *warpwise::packs<4 * VECTOR>(dx + offset) = values;
  });
}
