// One thread per element of the output, which stays in registers until it is final: no extra pass over memory for the
// bias, the activation or the residual. The GEMM itself is the naive one.

#include <warpwise/core/activation.cuh>

// x: (m, k), w: (n, k), residual: (m, n), with strides in elements; bias: (n), scale: (m), y, before: (m, n),
// contiguous; bias, residual, scale and before may be null. Block: (x, y) columns and rows. Grid: (cdiv(n,
// blockDim.x), cdiv(m, blockDim.y)). y = activate(scale * x w^T + bias) + residual; before is the activation's input.
template <class T, int ACTIVATION>
__global__ void linear_thread_per_element(const T* x, const T* w, const T* bias, const T* residual, const T* scale,
                                          T* y, T* before, int m, int n, int k, long long x_row, long long x_column,
                                          long long w_row, long long w_column, long long residual_row,
                                          long long residual_column) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= m || column >= n) return;
  float sum = 0.0f;
  for (int i = 0; i < k; ++i) {
    sum += warpwise::to_float(x[row * x_row + i * x_column]) * warpwise::to_float(w[column * w_row + i * w_column]);
  }
  if (scale) sum *= warpwise::to_float(scale[row]);
  if (bias) sum += warpwise::to_float(bias[column]);
  const long long index = static_cast<long long>(row) * n + column;
  if (before) before[index] = warpwise::from_float<T>(sum);
  float result = warpwise::activate<ACTIVATION, T>(sum);
  if (residual) result += warpwise::to_float(residual[row * residual_row + column * residual_column]);
  y[index] = warpwise::from_float<T>(result);
}
