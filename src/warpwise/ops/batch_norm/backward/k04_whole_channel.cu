// A block per channel in one launch, with up to 1024 threads and 16-byte accesses, as the forward's k05.

#include <warpwise/core/channel.cuh>

#include "gradient.cuh"

// x, dx: (n, channels, inner); dy likewise, or null for zeros; dmean, dvar, weight, dw, db: (channels) or null. Grid:
// channels blocks.
template <class T, class W, int VECTOR, int THREADS>
__global__ void __launch_bounds__(THREADS) gradient_of_channel(const T* dy, const float* dmean, const float* dvar,
                                                               const T* x, const W* weight, const float* mean,
                                                               const float* var, T* dx, W* dw, W* db, int n,
                                                               int channels, int inner, float eps) {
  const auto read = [&](long long offset) { return read_pair<T, VECTOR>(dy, x, offset); };
  __shared__ float warp_values[warpwise::kWarp];
  const int channel = blockIdx.x;
  const float m = mean[channel], rstd = rsqrtf(var[channel] + eps);
  float sum = 0.0f, dot = 0.0f;
  if (dy) {
    warpwise::for_each_vector<VECTOR, THREADS>(channel, 0, 1, n, channels, inner, read,
                                               [&](long long, const Pair<T, VECTOR>& pair) {
#pragma unroll
                                                 for (int e = 0; e < VECTOR; ++e) {
                                                   const float g = warpwise::to_float(pair.dy.at[e]);
                                                   sum += g;
                                                   dot += g * (warpwise::to_float(pair.x.at[e]) - m) * rstd;
                                                 }
                                               });
  }
  sum = warpwise::block_reduce<warpwise::Sum, THREADS>(sum, warp_values);
  dot = warpwise::block_reduce<warpwise::Sum, THREADS>(dot, warp_values);
  if (threadIdx.x == 0) store_sums(nullptr, dw, db, channel, sum, dot);
  const float count = static_cast<float>(n) * static_cast<float>(inner);
  const auto line = Line::of(channel, count, dmean, dvar, weight, mean, var, sum, dot, eps);
  warpwise::for_each_vector<VECTOR, THREADS>(channel, 0, 1, n, channels, inner, read,
                                             [&](long long offset, Pair<T, VECTOR> pair) {
#pragma unroll
                                               for (int e = 0; e < VECTOR; ++e)
                                                 pair.x.at[e] = line.at(pair.dy.at[e], pair.x.at[e]);
                                               *warpwise::packs<sizeof(T) * VECTOR>(dx + offset) = pair.x;
                                             });
}
