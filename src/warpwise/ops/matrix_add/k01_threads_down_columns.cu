// threadIdx.x walks down a column, as in many a first 2-D kernel: a warp's load touches 32 sectors instead of 4.
#include <warpwise/core/pack.cuh>

// a, b: (rows, cols) with row strides in elements; out: (rows, cols), contiguous. Block (32, 8): 32 rows, 8 columns.
template <typename T>
__global__ void matrix_add(const T* a, const T* b, T* out, long long rows, long long cols, long long a_stride,
                           long long b_stride) {
  using C = warpwise::Compute<T>;
  const long long row = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  const long long col = static_cast<long long>(blockIdx.y) * blockDim.y + threadIdx.y;
  if (row >= rows || col >= cols) return;
  const C sum = static_cast<C>(a[row * a_stride + col]) + static_cast<C>(b[row * b_stride + col]);
  out[row * cols + col] = static_cast<T>(sum);
}
