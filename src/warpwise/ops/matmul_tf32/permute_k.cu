// Copies A with its columns in the order in which k03 multiplies them, for a row-major B with unaligned rows.

#include <warpwise/core/float4.cuh>

// to: (m, k rounded up to a multiple of 32) = a: (m, k), row_stride and column_stride elements apart, padded with
// zeros. Of each 32 columns, column 4 d + i is stored at 8 i + d. Block: 256 threads. Grid: one thread per element of
// `to`.
__global__ void __launch_bounds__(256) permute_k(const float* __restrict__ a, long long row_stride,
                                                 long long column_stride, float* __restrict__ to, int m, int k) {
  const long long index = blockIdx.x * 256ll + threadIdx.x;
  const int length = warpwise::cdiv(k, 32) * 32, to_column = static_cast<int>(index % length), in_32 = to_column % 32;
  const int column = to_column - in_32 + in_32 % 8 * 4 + in_32 / 8;
  if (index < static_cast<long long>(m) * length)
    to[index] = column < k ? a[index / length * row_stride + column * column_stride] : 0.0f;
}
