// One thread a column, down its rows: the gradient before the activation, and beside it the column's sum, in one pass
// over memory where PyTorch makes two. Neighbouring threads take neighbouring columns, so that reads are coalesced.

#include <warpwise/core/activation.cuh>

// grad, before, result: (m, n), bias: (n), contiguous. Grid: cdiv(n, block) blocks.
template <class T, int ACTIVATION>
__global__ void activation_backward_column(const T* grad, const T* before, T* result, T* bias, int m, int n) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= n) return;
  float sum = 0.0f;
  for (int row = 0; row < m; ++row) {
    const long long at = static_cast<long long>(row) * n + column;
    const float gradient =
        warpwise::activation_backward<ACTIVATION, T>(warpwise::to_float(grad[at]), warpwise::to_float(before[at]));
    result[at] = warpwise::from_float<T>(gradient);
    sum += gradient;
  }
  bias[column] = warpwise::from_float<T>(sum);
}
