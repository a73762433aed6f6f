// Three launches: the convolution with its statistics in the epilogue, their sum, and normalise, relu and pool in one.
//
// A block sums its tile in registers, without reading memory. The statistics of a tile are its sum and its sum of
// squared distances from its own mean, which avoids cancellation; Chan's formula combines them. The convolution is
// written once and read once; PyTorch reads it three times and writes it twice more.

#include <warpwise/core/implicit_gemm.cuh>
#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/reduce.cuh>

// y: (n, k, h, w) = the convolution of x: (n, c, h, w) with f: (k, c, 3, 3), padded by 1. partials: (k, gridDim.x, 2),
// the sum of a tile's elements and of their squared distances from the tile's mean. Grid: (cdiv(n h w, kColumns),
// cdiv(k, ROWS)). A warp computes TM filters and all columns.
template <int ROWS, int TM>
__global__ void __launch_bounds__(warpwise::kGemmThreads) convolution_with_statistics(const float* x, const float* f,
                                                                                      float* y, float* partials, int n,
                                                                                      int c, int h, int w, int k) {
  warpwise::wait_for_previous_kernel();
  constexpr int TN = warpwise::kColumns / warpwise::kWarp;  // 4: adjacent columns
  const int pixels = h * w, depth = 9 * c, first = blockIdx.y * ROWS;
  const int mine = blockIdx.x * warpwise::kColumns + threadIdx.x, image = mine / pixels, pixel = mine - image * pixels;
  const int row = pixel / w - 1, column = pixel % w - 1;
  const bool inside = image < n;
  const float* const from = x + static_cast<long long>(inside ? image : 0) * c * pixels;

  float sums[TM][TN] = {};
  warpwise::implicit_gemm<ROWS>(
      sums, 0, depth, [&](int i, int d) { return first + i < k ? f[(first + i) * depth + d] : 0.0f; },
      [&](int d) {
        const int channel = d / 9, e = d - 9 * channel, at_h = row + e / 3, at_w = column + e % 3;
        const bool valid = inside && at_h >= 0 && at_h < h && at_w >= 0 && at_w < w;
        return valid ? from[(channel * h + at_h) * w + at_w] : 0.0f;
      });

  const int lane = threadIdx.x % warpwise::kWarp, top = first + threadIdx.x / warpwise::kWarp * TM;
  const int start = blockIdx.x * warpwise::kColumns, left = start + lane * TN, all = n * pixels;
  const float count = static_cast<float>(min(warpwise::kColumns, all - start));
#pragma unroll
  for (int i = 0; i < TM; ++i) {
    float sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (int j = 0; j < TN; ++j) sum += left + j < all ? sums[i][j] : 0.0f;
    sum = warpwise::warp_reduce<warpwise::Sum>(sum);
    const float mean = sum / count;
#pragma unroll
    for (int j = 0; j < TN; ++j) squares += left + j < all ? (sums[i][j] - mean) * (sums[i][j] - mean) : 0.0f;
    squares = warpwise::warp_reduce<warpwise::Sum>(squares);
    if (lane == 0 && top + i < k) {
      float* const to = partials + 2 * ((top + i) * static_cast<long long>(gridDim.x) + blockIdx.x);
      to[0] = sum;
      to[1] = squares;
    }
  }
  warpwise::store_planes(sums, y, top, k, left, n, k, 0, pixels, static_cast<const float*>(nullptr));
}

constexpr int kThreads = 256, kStatisticsThreads = 1024;  // many: all reads of a channel are in flight at once

// mean, var: (k) from partials: (k, tiles, 2) of kColumns elements each, but for the last: M2 = sum(M2_t + n_t (m_t -
// m)^2). Grid: k blocks of kStatisticsThreads.
__global__ void __launch_bounds__(kStatisticsThreads) combined_statistics(const float* partials, float* mean,
                                                                          float* var, int tiles, int elements) {
  warpwise::wait_for_previous_kernel();
  __shared__ float warp_values[warpwise::kWarp];
  partials += 2ll * blockIdx.x * tiles;
  float sum = 0.0f, squares = 0.0f;
#pragma unroll 4
  for (int t = threadIdx.x; t < tiles; t += kStatisticsThreads) sum += partials[2 * t];
  const float count = static_cast<float>(elements);
  const float m = warpwise::block_reduce<warpwise::Sum, kStatisticsThreads>(sum, warp_values) / count;
#pragma unroll 4
  for (int t = threadIdx.x; t < tiles; t += kStatisticsThreads) {
    const float size = static_cast<float>(min(warpwise::kColumns, elements - t * warpwise::kColumns));
    const float distance = partials[2 * t] / size - m;
    squares += partials[2 * t + 1] + size * distance * distance;
  }
  squares = warpwise::block_reduce<warpwise::Sum, kStatisticsThreads>(squares, warp_values);
  if (threadIdx.x > 0) return;
  mean[blockIdx.x] = m;
  var[blockIdx.x] = squares / count;
}

// out: (n, k, h / 2, w / 2) = the maximum over 2 x 2 windows of relu(gamma (y - mean) / sqrt(var + eps) + beta). A
// thread takes WINDOWS adjacent windows of a row: 2 if w is a multiple of 4, y 16-byte and out 8-byte aligned, else 1.
// PAIRS: w is even, and each row of a window is one 8-byte load.
template <int WINDOWS, bool PAIRS>
__global__ void __launch_bounds__(kThreads) normalise_and_pool(const float* y, const float* mean, const float* var,
                                                               const float* gamma, const float* beta, float* out,
                                                               int planes, int k, int h, int w, float eps) {
  using Row = warpwise::Pack<float, 8 * WINDOWS>;
  warpwise::wait_for_previous_kernel();
  const int oh = h / 2, across = w / (2 * WINDOWS), i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= planes * oh * across) return;
  const int line = i / across, column = 2 * WINDOWS * (i - line * across), plane = line / oh;
  const int row = 2 * (line - plane * oh), channel = plane % k;
  const float* const from = y + (static_cast<long long>(plane) * h + row) * w + column;
  Row above, below;
  if (PAIRS) {
    above = *warpwise::packs<8 * WINDOWS>(from);
    below = *warpwise::packs<8 * WINDOWS>(from + w);
  } else {
    above = {from[0], from[1]};
    below = {from[w], from[w + 1]};
  }
  const float m = mean[channel], scale = gamma[channel] * rsqrtf(var[channel] + eps), shift = beta[channel];
  warpwise::Pack<float, 4 * WINDOWS> best = {};
#pragma unroll
  for (int window = 0; window < WINDOWS; ++window) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float value = (e < 2 ? above : below).at[2 * window + e % 2];
      const float normal = (value - m) * scale + shift;
      if (normal > best.at[window] || normal != normal) best.at[window] = normal;
    }
  }
  *warpwise::packs<4 * WINDOWS>(out + WINDOWS * i) = best;
}
