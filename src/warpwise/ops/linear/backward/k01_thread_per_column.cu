// One thread per column, which walks down the rows: the gradient before the activation and the column's sum in one
// pass over memory, where PyTorch takes two. Adjacent threads take adjacent columns, so accesses coalesce.

#include <warpwise/core/activation.cuh>

// grad, before, result: (m, n), bias: (n), contiguous. Grid: cdiv(n, blockDim.x) blocks.
template <class T, int ACTIVATION>
__global__ void activation_backward_column(const T* grad, const T* before, T* result, T* bias, int m, int n) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= n) return;
  float sum = 0.0f;
  for (int row = 0; row < m; ++row) {
    const long long index = static_cast<long long>(row) * n + column;
    const float gradient = warpwise::activation_backward<ACTIVATION, T>(warpwise::to_float(grad[index]),
                                                                        warpwise::to_float(before[index]));
    result[index] = warpwise::from_float<T>(gradient);
    sum += gradient;
  }
  bias[column] = warpwise::from_float<T>(sum);
}
