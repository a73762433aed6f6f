// One thread per element of C: fp8 values are converted to float one by one, multiplied and summed in float32.
//
// Both operands are K-major, so a thread reads two rows, 2 bytes per multiply-add, which its neighbours read again.
// The scales are applied once per element.

#include <cuda_bf16.h>
#include <cuda_fp8.h>

// a: (m, k), b: (n, k), c: (m, n), row-major; scale_a: one scale, or (m,) if rowwise; scale_b: one scale, or (n,) if
// rowwise. Block: (x, y) columns and rows. Grid: (cdiv(n, blockDim.x), cdiv(m, blockDim.y)).
template <class A, class B>
__global__ void scaled_matmul_naive(const A* a, const B* b, __nv_bfloat16* c, const float* scale_a,
                                    const float* scale_b, bool rowwise, int m, int n, int k) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= m || column >= n) return;
  const A* const a_row = a + static_cast<long long>(row) * k;
  const B* const b_column = b + static_cast<long long>(column) * k;
  float sum = 0.0f;
  for (int i = 0; i < k; ++i) sum += static_cast<float>(a_row[i]) * static_cast<float>(b_column[i]);
  const float scale = scale_a[rowwise ? row : 0] * scale_b[rowwise ? column : 0];
  c[static_cast<long long>(row) * n + column] = __float2bfloat16_rn(sum * scale);
}
