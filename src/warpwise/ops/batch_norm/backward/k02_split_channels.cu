// Several blocks per channel, as in the forward: one launch for the two sums and one for dx, with 16-byte accesses.
//
// dx = a dy + b (x - mean) + c. The second launch computes a, b and c of each channel from the sums.

#include <warpwise/core/channel.cuh>

#include "gradient.cuh"

constexpr int kThreads = warpwise::kChannelThreads;

// sums: (channels, 2) = sum dy, sum dy h, with h = (x - mean) * rstd; dw, db: (channels) or null. x: (n, channels,
// inner); dy likewise, or null for zeros. Grid: (parts, channels).
template <class T, class W, int VECTOR>
__global__ void __launch_bounds__(kThreads) gradient_sums(const T* dy, const T* x, const float* mean, const float* var,
                                                          float* sums, W* dw, W* db, float* partials, int* semaphores,
                                                          int n, int channels, int inner, float eps) {
  const auto read = [&](long long offset) { return read_pair<T, VECTOR>(dy, x, offset); };
  const int channel = blockIdx.y;
  const float m = mean[channel], rstd = rsqrtf(var[channel] + eps);
  float sum = 0.0f, dot = 0.0f;
  if (dy) {
    warpwise::for_each_vector<VECTOR>(channel, blockIdx.x, gridDim.x, n, channels, inner, read,
                                      [&](long long, const Pair<T, VECTOR>& pair) {
#pragma unroll
                                        for (int e = 0; e < VECTOR; ++e) {
                                          const float g = pair.gradient(e);
                                          sum += g;
                                          dot += g * (pair.input(e) - m) * rstd;
                                        }
                                      });
  }
  if (!warpwise::channel_sums(sum, dot, partials, semaphores) || threadIdx.x > 0) return;
  store_sums(sums, dw, db, channel, sum, dot);
}

// dx: (n, channels, inner); dmean, dvar, weight: (channels) or null. Grid: (parts, channels).
template <class T, class W, int VECTOR>
__global__ void __launch_bounds__(kThreads) gradient_of_input(const T* dy, const float* dmean, const float* dvar,
                                                              const T* x, const W* weight, const float* mean,
                                                              const float* var, const float* sums, T* dx, int n,
                                                              int channels, int inner, float eps) {
  const auto read = [&](long long offset) { return read_pair<T, VECTOR>(dy, x, offset); };
  const int channel = blockIdx.y;
  const float count = static_cast<float>(n) * static_cast<float>(inner);
  const auto line =
      Line::of(channel, count, dmean, dvar, weight, mean, var, sums[2 * channel], sums[2 * channel + 1], eps);
  warpwise::for_each_vector<VECTOR>(
      channel, blockIdx.x, gridDim.x, n, channels, inner, read, [&](long long offset, const Pair<T, VECTOR>& pair) {
        warpwise::Elements<T, VECTOR> result;
#pragma unroll
        for (int e = 0; e < VECTOR; ++e)
          result.at[e] = warpwise::from_float<T>(line.at(pair.gradient(e), pair.input(e)));
        *warpwise::packs<sizeof(T) * VECTOR>(dx + offset) = result;
      });
}
