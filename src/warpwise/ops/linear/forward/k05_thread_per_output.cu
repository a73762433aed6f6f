// One thread per result: a row of x times a row of w, both read from memory, then the steps of the epilogue.
#include <warpwise/core/activation.cuh>

// x: (m, k), w: (n, k), y: (m, n); bias: (n), residual and kept, the value before the activation: (m, n), row_scale:
// (m), each of which may be null. Threads of a warp have neighbouring columns: they share the row of x.
template <int ACTIVATION>
__global__ void linear(const float* x, const float* w, const float* bias, const float* residual, const float* row_scale,
                       float* y, float* kept, int m, int n, int k) {
  const long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x, row = at / n, column = at % n;
  if (row >= m) return;
  float sum = 0.0f;
  for (int i = 0; i < k; ++i) sum += x[row * k + i] * w[column * k + i];
  if (row_scale) sum *= row_scale[row];
  if (bias) sum += bias[column];
  if (kept) kept[at] = sum;
  y[at] = warpwise::activate<ACTIVATION, float>(sum) + (residual ? residual[at] : 0.0f);
}
