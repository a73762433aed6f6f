// The gradient of the convolution, computed once and stored.
#pragma once

#include <warpwise/core/previous_kernel.cuh>

#include "grad_convolved.cuh"

constexpr int kStoreThreads = 256;

// Stores the pixels of `d`, a 2 x 2 window at (row, column) of a plane (h, w), that are inside the image.
template <bool PAIRS>
__device__ inline void store_window(float* to, const float (&d)[4], int row, int column, int h, int w) {
  if (PAIRS) {
    *warpwise::packs<8>(to) = warpwise::Pack<float, 8>{{d[0], d[1]}};
    if (row + 1 < h) *warpwise::packs<8>(to + w) = warpwise::Pack<float, 8>{{d[2], d[3]}};
    return;
  }
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    if (row + e / 2 < h && column + e % 2 < w) to[e / 2 * w + e % 2] = d[e];
  }
}

// d: (n, k, h, w) from y, dconv: (n, k, h, w), dy: (n, k, h / 2, w / 2) and sums: (k, parts, 2) of channel_parts; dy,
// dmean, dvar and dconv may be null. Writes dgamma, dbeta: (k). Grid: (blocks of a channel, k).
template <bool PAIRS, bool ADDED>
__global__ void __launch_bounds__(kStoreThreads) store_gradient(const float* y, const float* dy, const float* dmean,
                                                                const float* dvar, const float* dconv,
                                                                const float* mean, const float* var, const float* gamma,
                                                                const float* beta, const float* sums, int parts,
                                                                float* d, float* dgamma, float* dbeta, int n, int k,
                                                                int h, int w, float eps) {
  using Source = GradConvolved<PAIRS, ADDED>;
  constexpr int kBatch = 4;  // windows whose loads are in flight together
  __shared__ typename Source::Channel shared;
  const int filter = blockIdx.y, down = (h + 1) / 2, across = (w + 1) / 2, windows = down * across;
  const int start = blockIdx.x * kStoreThreads + threadIdx.x, step = gridDim.x * kStoreThreads;
  int image = start / windows, r = start % windows / across, c = start % across;
  const int image_step = step / windows, row_step = step % windows / across, column_step = step % across;
  warpwise::wait_for_previous_kernel();
  const Source source = grad_convolved<PAIRS, ADDED>(y, dy, dmean, dvar, dconv, mean, var, gamma, beta, sums, parts,
                                                     dgamma, dbeta, n, h, w, k, eps);
  source.prepare(&shared, filter, 1, blockIdx.x == 0);
  __syncthreads();
  const typename Source::Channel channel = shared;
  while (image < n) {
    typename Source::Raw raw[kBatch];
    int images[kBatch], rows[kBatch], columns[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      images[i] = image;
      rows[i] = r;
      columns[i] = c;
      if (image < n) raw[i] = source.load(image * k + filter, r, c);
      c += column_step;
      r += row_step;
      image += image_step;
      if (c >= across) {
        c -= across;
        ++r;
      }
      if (r >= down) {
        r -= down;
        ++image;
      }
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (images[i] >= n) continue;
      float values[4];
      source.finish(channel, raw[i], rows[i], columns[i], values);
      const int row = 2 * rows[i], column = 2 * columns[i];
      store_window<PAIRS>(d + ((images[i] * k + filter) * h + row) * w + column, values, row, column, h, w);
    }
  }
}
