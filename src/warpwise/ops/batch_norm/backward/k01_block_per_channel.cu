// One block per channel, which reads it twice: the sums, then the gradient. The definition and the baseline.

#include <warpwise/core/reduce.cuh>

constexpr int kThreads = 256;

// With h = (x - mean) * rstd: dw = sum dy h, db = sum dy, and dx = w rstd (dy - db / M - h dw / M) + dmean / M + 2 dvar
// (x - mean) / M. x, dx: (n, channels, inner); dy: the same shape, or null; mean, var: (channels); all others:
// (channels) or null. Grid: channels blocks.
__global__ void __launch_bounds__(kThreads) batch_norm_backward(const float* dy, const float* dmean, const float* dvar,
                                                                const float* x, const float* weight, const float* mean,
                                                                const float* var, float* dx, float* dw, float* db,
                                                                int n, int channels, int inner, float eps) {
  __shared__ float warp_values[warpwise::kWarp];
  const int channel = blockIdx.x, count = n * inner;
  const float m = mean[channel], rstd = rsqrtf(var[channel] + eps), inverse = 1.0f / static_cast<float>(count);
  const auto at = [&](int e) { return (static_cast<long long>(e / inner) * channels + channel) * inner + e % inner; };
  float sum = 0.0f, dot = 0.0f;
  for (int e = threadIdx.x; dy && e < count; e += kThreads) {
    sum += dy[at(e)];
    dot += dy[at(e)] * (x[at(e)] - m) * rstd;
  }
  sum = warpwise::block_reduce<warpwise::Sum, kThreads>(sum, warp_values);
  dot = warpwise::block_reduce<warpwise::Sum, kThreads>(dot, warp_values);
  const float scale = rstd * (weight ? weight[channel] : 1.0f);
  const float constant = (dmean ? dmean[channel] : 0.0f) * inverse, slope = (dvar ? dvar[channel] : 0.0f) * inverse;
  for (int e = threadIdx.x; e < count; e += kThreads) {
    const float centred = x[at(e)] - m, gradient = dy ? dy[at(e)] : 0.0f;
    dx[at(e)] = scale * (gradient - sum * inverse - centred * rstd * dot * inverse) + constant + 2 * slope * centred;
  }
  if (threadIdx.x > 0) return;
  if (dw) dw[channel] = dot;
  if (db) db[channel] = sum;
}
