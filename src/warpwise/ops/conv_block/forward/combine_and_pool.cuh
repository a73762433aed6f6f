// Normalisation, relu and pooling of k07, whose blocks combine the partial statistics of the convolution themselves.
#pragma once

#include <warpwise/core/conv3x3.cuh>
#include <warpwise/core/previous_kernel.cuh>

constexpr int kPoolThreads = 256;

// out: (n, k, h / 2, w / 2) = the maximum over 2 x 2 windows of relu(gamma (y - mean) / sqrt(var + eps) + beta), mean
// and var: (k), which each block computes from partials: (k, parts, 3). Grid: (blocks of a filter, k). The first
// windows are read before the statistics. PAIRS: w is even, and each row of a window is one 8-byte load.
template <bool PAIRS>
__global__ void __launch_bounds__(kPoolThreads) normalise_and_pool(const float* y, const float* partials,
                                                                   const float* gamma, const float* beta, float* mean,
                                                                   float* var, float* out, int parts, int n, int k,
                                                                   int h, int w, float eps) {
  constexpr int kBatch = 2;  // windows whose loads are in flight together
  __shared__ float warp_values[warpwise::kWarp];
  const int filter = blockIdx.y, oh = h / 2, ow = w / 2, windows = oh * ow;
  const int start = blockIdx.x * kPoolThreads + threadIdx.x, step = gridDim.x * kPoolThreads;
  warpwise::Walk at{
      oh,       ow, start / windows, start % windows / ow, start % ow, step / windows, step % windows / ow,
      step % ow};  // plane: the image
  warpwise::wait_for_previous_kernel();
  float values[kBatch][4];
  int places[kBatch];  // of out, or -1
  const auto load = [&] {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int plane = at.plane * k + filter;
      places[i] = at.plane < n ? plane * windows + at.row * ow + at.column : -1;
      if (at.plane < n) {
        warpwise::conv_read_window<PAIRS>(values[i], y + (plane * h + 2 * at.row) * w + 2 * at.column, 0, 0, 2, w);
      }
      at.advance();
    }
  };
  load();

  partials += 3ll * filter * parts;
  float sum = 0.0f, squares = 0.0f;
  for (int p = threadIdx.x; p < parts; p += kPoolThreads) sum += partials[3 * p];
  const float count = static_cast<float>(n) * static_cast<float>(h * w);
  const float m = warpwise::block_reduce<warpwise::Sum, kPoolThreads>(sum, warp_values) / count;
  for (int p = threadIdx.x; p < parts; p += kPoolThreads) {
    const float size = partials[3 * p + 2], distance = partials[3 * p] / fmaxf(size, 1.0f) - m;
    squares += partials[3 * p + 1] + size * distance * distance;
  }
  const float v = warpwise::block_reduce<warpwise::Sum, kPoolThreads>(squares, warp_values) / count;
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    mean[filter] = m;
    var[filter] = v;
  }
  const float scale = gamma[filter] * rsqrtf(v + eps), shift = beta[filter];
  while (places[0] >= 0) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      float best = 0.0f;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float normal = (values[i][e] - m) * scale + shift;
        if (normal > best || normal != normal) best = normal;
      }
      if (places[i] >= 0) out[places[i]] = best;
    }
    load();
  }
}
