// The products of k03 by mma.sync, as three of the four products of TF32 pairs.
#pragma once

#include "warp_plan.cuh"

// The scores of a tile, to q_tile. Rows of 16 points: lane l loads the address of 16 bytes of row l % 16 for ldmatrix.
// Features past the width are others, with zeros as coefficients.
template <class Plan>
__device__ inline void store_scores(const WarpMemory<Plan>& memory, const float* tile, int stride, int width) {
  const int lane = threadIdx.x % 32, group = lane / 4, index = lane % 4;
#pragma unroll
  for (int m = 0; m < Plan::kTile; m += 16) {
    const float* const offsets = memory.offsets + 2 * index;
    float products[4] = {offsets[0], offsets[1], offsets[0], offsets[1]};
    const unsigned from = warpwise::shared_address(tile + (m + lane % 16) * stride);
#pragma unroll
    for (int s = 0; s < Plan::kSteps; ++s) {
      unsigned x[4], rest[4];
      warpwise::ldmatrix_x4(x, from + 4 * min(8 * s + lane / 16 * 4, (width - 1) / 4 * 4));
#pragma unroll
      for (int i = 0; i < 4; ++i) rest[i] = warpwise::rest_of_tf32(__uint_as_float(x[i]));
      const auto c = *reinterpret_cast<const warpwise::Float4*>(memory.coefficients + (32 * s + lane) * 4);
      unsigned b[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) b[i] = __float_as_uint(c.at[i]);
      warpwise::mma::mma_sync(products, x, b[2], b[3], 0.0f);
      warpwise::mma::mma_sync(products, rest, b[0], b[1], 0.0f);
      warpwise::mma::mma_sync(products, x, b[0], b[1], 0.0f);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      *reinterpret_cast<float2*>(memory.q_tile + (m + group + 8 * h) * Plan::kQStride + 2 * index) =
          make_float2(products[2 * h], products[2 * h + 1]);
    }
  }
}

// Adds the moments (width, domains) of a tile. Index t of the fragments' inner dimension is point 2 t, index t + 4 is
// point 2 t + 1: no bank conflicts.
template <class Plan>
__device__ inline void add_moments(float (&moments)[Plan::ROWS][4], const float* q_tile, const float* tile, int stride,
                                   int width) {
  const int lane = threadIdx.x % 32, group = lane / 4, index = lane % 4;
#pragma unroll
  for (int p = 2 * index; p < Plan::kTile; p += 8) {
    float values[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) values[i] = q_tile[(p + i) * Plan::kQStride + group];
    const unsigned b0 = __float_as_uint(values[0]), b1 = __float_as_uint(values[1]);
    const unsigned rest0 = warpwise::rest_of_tf32(values[0]), rest1 = warpwise::rest_of_tf32(values[1]);
#pragma unroll
    for (int r = 0; r < Plan::ROWS; ++r) {
      unsigned large[4], small[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int d = min(16 * r + group + i % 2 * 8, width - 1);  // sums of rows past the width are not used
        const float x = tile[(p + i / 2) * stride + d];
        large[i] = __float_as_uint(x);
        small[i] = warpwise::rest_of_tf32(x);
      }
      warpwise::mma::mma_sync(moments[r], small, b0, b1, 0.0f);
      warpwise::mma::mma_sync(moments[r], large, rest0, rest1, 0.0f);
      warpwise::mma::mma_sync(moments[r], large, b0, b1, 0.0f);
    }
  }
}
