// Rows of a matrix in shared memory, and products of four of them with four others in registers.
#pragma once

#include <warpwise/core/float4.cuh>

namespace warpwise {

// Elements from one row of a tile to the next: at least `width`, and an odd number of 16-byte words, so that the
// 16-byte accesses of eight lanes to adjacent rows have no bank conflict.
__host__ __device__ constexpr int tile_stride(int width) { return ((width + 3) / 4 | 1) * 4; }

// tile: (rows, stride) = `rows` rows of x: (n, width) from row `first` on. Rows past n and columns past the width are
// zero, up to the next multiple of four columns. All threads of the block call it; it does not synchronise.
__device__ inline void load_rows(float* tile, const float* x, long long n, int width, long long first, int rows,
                                 int stride) {
  const int quads = (width + 3) / 4;
  const bool vector = width % 4 == 0 && aligned(x);
#pragma unroll 4
  for (int i = threadIdx.x; i < rows * quads; i += blockDim.x) {
    const int row = i / quads, column = (i - row * quads) * 4;
    const int valid = first + row < n ? width - column : 0;
    const float* const from = x + (first + row) * width + column;
    const Float4 values = vector ? load4<true>(from, valid) : load4<false>(from, valid);
    *reinterpret_cast<Float4*>(tile + row * stride + column) = values;
  }
}

// sums[i][j] += the dot product of row i of a, (4, width) with rows a_step apart, and row j of b. Both are aligned to
// 16 bytes; columns from the width up to a multiple of four are zero.
__device__ inline void add_products(float (&sums)[4][4], const float* a, int a_step, const float* b, int b_step,
                                    int width) {
  for (int column = 0; column < width; column += 4) {
    Float4 left[4], right[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      left[i] = *reinterpret_cast<const Float4*>(a + i * a_step + column);
      right[i] = *reinterpret_cast<const Float4*>(b + i * b_step + column);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[i][j] += left[i].at[e] * right[j].at[e];
      }
    }
  }
}

}  // namespace warpwise
