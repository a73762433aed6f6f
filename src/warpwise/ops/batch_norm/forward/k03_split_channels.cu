// Several blocks per channel: 16 channels occupy all SMs. One launch for the statistics, read once, and one to
// normalise.
//
// The sums are shifted by the first element x_0 of the channel: the cancellation in var = mean((x - x_0)^2) - mean(x -
// x_0)^2 then depends only on the distance of x_0 from the mean in standard deviations. The second launch reads from L2
// if the tensor fits: 128 x 16 x 28 x 28 floats are 6.4 MB.

#include <warpwise/core/channel.cuh>

constexpr int kThreads = warpwise::kChannelThreads;

// x: (n, channels, inner), mean, var: (channels). Grid: (parts, channels).
template <class T, int VECTOR>
__global__ void __launch_bounds__(kThreads) batch_statistics(const T* x, float* mean, float* var, float* partials,
                                                             int* semaphores, int n, int channels, int inner) {
  using Vector = warpwise::Pack<T, sizeof(T) * VECTOR>;
  const auto read = [&](long long offset) { return *warpwise::packs<sizeof(T) * VECTOR>(x + offset); };
  const int channel = blockIdx.y;
  const float origin = n > 0 ? warpwise::to_float(x[static_cast<long long>(channel) * inner]) : 0.0f;
  float sum = 0.0f, squares = 0.0f;
  warpwise::for_each_vector<VECTOR>(channel, blockIdx.x, gridDim.x, n, channels, inner, read,
                                    [&](long long, const Vector& loaded) {
#pragma unroll
                                      for (int e = 0; e < VECTOR; ++e) {
                                        const float shifted = warpwise::to_float(loaded.at[e]) - origin;
                                        sum += shifted;
                                        squares += shifted * shifted;
                                      }
                                    });
  if (!warpwise::channel_sums(sum, squares, partials, semaphores) || threadIdx.x > 0) return;
  const float count = static_cast<float>(n) * static_cast<float>(inner), distance = sum / count;
  mean[channel] = origin + distance;
  const float spread = squares / count - distance * distance;
  var[channel] = spread < 0.0f ? 0.0f : spread;  // NaN is kept
}

// y = (x - mean) / sqrt(var + eps) * weight + bias; weight, bias: (channels) or null. Grid: (parts, channels).
template <class T, class W, int VECTOR>
__global__ void __launch_bounds__(kThreads) normalise(const T* x, const float* mean, const float* var, const W* weight,
                                                      const W* bias, T* y, int n, int channels, int inner, float eps) {
  using Vector = warpwise::Pack<T, sizeof(T) * VECTOR>;
  const auto read = [&](long long offset) { return *warpwise::packs<sizeof(T) * VECTOR>(x + offset); };
  const int channel = blockIdx.y;
  const float m = mean[channel], shift = bias ? warpwise::to_float(bias[channel]) : 0.0f;
  const float scale = rsqrtf(var[channel] + eps) * (weight ? warpwise::to_float(weight[channel]) : 1.0f);
  warpwise::for_each_vector<VECTOR>(
      channel, blockIdx.x, gridDim.x, n, channels, inner, read, [&](long long offset, Vector values) {
#pragma unroll
        for (int e = 0; e < VECTOR; ++e)
          values.at[e] = warpwise::from_float<T>((warpwise::to_float(values.at[e]) - m) * scale + shift);
        *warpwise::packs<sizeof(T) * VECTOR>(y + offset) = values;
      });
}
