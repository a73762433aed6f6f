// One block per channel, which reads it three times: mean, variance, result. The definition and the baseline.

#include <warpwise/core/reduce.cuh>

constexpr int kThreads = 256;

// x, y: (n, channels, inner), mean, var: (channels); weight, bias: (channels) or null. Grid: channels blocks.
__global__ void __launch_bounds__(kThreads) batch_norm(const float* x, const float* weight, const float* bias, float* y,
                                                       float* mean, float* var, int n, int channels, int inner,
                                                       float eps) {
  __shared__ float warp_values[warpwise::kWarp];
  const int channel = blockIdx.x, count = n * inner;
  const auto at = [&](int e) { return (static_cast<long long>(e / inner) * channels + channel) * inner + e % inner; };
  float sum = 0.0f, squares = 0.0f;
  for (int e = threadIdx.x; e < count; e += kThreads) sum += x[at(e)];
  const float m = warpwise::block_reduce<warpwise::Sum, kThreads>(sum, warp_values) / static_cast<float>(count);
  for (int e = threadIdx.x; e < count; e += kThreads) squares += (x[at(e)] - m) * (x[at(e)] - m);
  const float v = warpwise::block_reduce<warpwise::Sum, kThreads>(squares, warp_values) / static_cast<float>(count);
  const float scale = rsqrtf(v + eps) * (weight ? weight[channel] : 1.0f), shift = bias ? bias[channel] : 0.0f;
  for (int e = threadIdx.x; e < count; e += kThreads) y[at(e)] = (x[at(e)] - m) * scale + shift;
  if (threadIdx.x == 0) {
    mean[channel] = m;
    var[channel] = v;
  }
}
