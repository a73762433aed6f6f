// What goes before k06 where a row-major B's rows begin anywhere: A in the order that it is taken in.

#include <warpwise/core/float4.cuh>

// to: (m, k, up to a multiple of 32) = a: (m, k), row_stride and column_stride elements apart, and zeros: of each 32
// columns, columns 4 d + i at place 8 i + d. Grid: a thread an element.
__global__ void __launch_bounds__(256) reordered(const float* __restrict__ a, long long row_stride,
                                                 long long column_stride, float* __restrict__ to, int m, int k) {
  const long long at = blockIdx.x * 256ll + threadIdx.x;
  const int length = warpwise::cdiv(k, 32) * 32, place = static_cast<int>(at % length), of_32 = place % 32;
  const int column = place - of_32 + of_32 % 8 * 4 + of_32 / 8;
  if (at < static_cast<long long>(m) * length)
    to[at] = column < k ? a[at / length * row_stride + column * column_stride] : 0.0f;
}
