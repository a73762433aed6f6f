// threadIdx.x walks along a row: a warp's 32 addresses are consecutive, 4 sectors a load of float instead of 32.
#include <warpwise/core/pack.cuh>

// a, b: (rows, cols) with row strides in elements; out: (rows, cols), contiguous. Block (32, 8): 8 rows, 32 columns.
template <typename T>
__global__ void matrix_add(const T* a, const T* b, T* out, long long rows, long long cols, long long a_stride,
                           long long b_stride) {
  using C = warpwise::Compute<T>;
  const long long row = static_cast<long long>(blockIdx.y) * blockDim.y + threadIdx.y;
  const long long col = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= rows || col >= cols) return;
  const C sum = static_cast<C>(a[row * a_stride + col]) + static_cast<C>(b[row * b_stride + col]);
  out[row * cols + col] = static_cast<T>(sum);
}
