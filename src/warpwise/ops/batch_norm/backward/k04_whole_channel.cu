// A block per channel in one launch, with up to 1024 threads and 16-byte accesses, as the forward's k05.

#include <warpwise/core/channel.cuh>

#include "gradient.cuh"

// x, dx: (n, channels, inner); dy likewise, or null for zeros; dmean, dvar, weight, dw, db: (channels) or null. sums:
// (channels, 2). Grid: channels blocks.
template <class T, class W, int VECTOR, int THREADS>
__global__ void __launch_bounds__(THREADS) gradient_of_channel(const T* dy, const float* dmean, const float* dvar,
                                                               const T* x, const W* weight, const float* mean,
                                                               const float* var, float* sums, T* dx, W* dw, W* db,
                                                               int n, int channels, int inner, float eps) {
  __shared__ float warp_values[warpwise::kWarp];
  const int channel = blockIdx.x;
  const float m = mean[channel], rstd = rsqrtf(var[channel] + eps);
  float sum = 0.0f, dot = 0.0f;
  if (dy) {
    warpwise::for_each_vector<VECTOR, THREADS>(channel, 0, 1, n, channels, inner, [&](long long offset) {
      const auto gradient = *warpwise::packs<sizeof(T) * VECTOR>(dy + offset);
      const auto value = *warpwise::packs<sizeof(T) * VECTOR>(x + offset);
#pragma unroll
      for (int e = 0; e < VECTOR; ++e) {
        const float g = warpwise::to_float(gradient.at[e]);
        sum += g;
        dot += g * (warpwise::to_float(value.at[e]) - m) * rstd;
      }
    });
  }
  sum = warpwise::block_reduce<warpwise::Sum, THREADS>(sum, warp_values);
  dot = warpwise::block_reduce<warpwise::Sum, THREADS>(dot, warp_values);
  if (threadIdx.x == 0) store_sums(sums, dw, db, channel, sum, dot);
  __syncthreads();
  const float count = static_cast<float>(n) * static_cast<float>(inner);
  const auto line = Line::of(channel, count, dmean, dvar, weight, mean, var, sums, eps);
  warpwise::for_each_vector<VECTOR, THREADS>(channel, 0, 1, n, channels, inner, [&](long long offset) {
    auto values = *warpwise::packs<sizeof(T) * VECTOR>(x + offset);
    warpwise::Elements<T, VECTOR> gradient = {};
    if (dy) gradient = *warpwise::packs<sizeof(T) * VECTOR>(dy + offset);
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) values.at[e] = line.at(gradient.at[e], values.at[e]);
    *warpwise::packs<sizeof(T) * VECTOR>(dx + offset) = values;
  });
}
