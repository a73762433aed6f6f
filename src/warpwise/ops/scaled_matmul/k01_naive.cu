// One thread an element of C: fp8 values become floats one by one, are multiplied and summed in float32.
//
// Both factors have K along the rows, so that a thread walks two rows; what it reads, 2 bytes a multiply-add, its
// neighbours read again. The scales come last, once an element.

#include <cuda_bf16.h>
#include <cuda_fp8.h>

// a: (m, k), b: (n, k), c: (m, n), row-major; scale_a: a scale, or (m,) by_row; scale_b: a scale, or (n,) by_row.
// Block: (x, y) columns and rows; grid: as many as cover (n, m).
template <class A, class B>
__global__ void scaled_matmul_naive(const A* a, const B* b, __nv_bfloat16* c, const float* scale_a,
                                    const float* scale_b, bool by_row, int m, int n, int k) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= m || column >= n) return;
  const A* const left = a + static_cast<long long>(row) * k;
  const B* const right = b + static_cast<long long>(column) * k;
  float sum = 0.0f;
  for (int i = 0; i < k; ++i) sum += static_cast<float>(left[i]) * static_cast<float>(right[i]);
  const float scale = scale_a[by_row ? row : 0] * scale_b[by_row ? column : 0];
  c[static_cast<long long>(row) * n + column] = __float2bfloat16_rn(sum * scale);
}
