// One thread per element of the three gradients: the definition and the baseline.

#include <warpwise/core/numeric.cuh>

// dy: (m, n), only where relu_output, (m, n), is positive unless it is null; x: (m, k), w: (n, k); dx: (m, k) = dy w,
// or null; dw: (n, k) = dy^T x; db: (n), the sum of dy over rows. Grid: cdiv(m * k + n * k + n, blockDim.x).
__global__ void linear_backward(const float* dy, const float* relu_output, const float* x, const float* w, float* dx,
                                float* dw, float* db, int m, int n, int k) {
  const long long inputs = static_cast<long long>(m) * k, weights = static_cast<long long>(n) * k;
  long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  float sum = 0.0f;
  const auto gradient = [&](long long index) { return !relu_output || relu_output[index] > 0.0f ? dy[index] : 0.0f; };
  if (at < inputs) {
    if (!dx) return;
    for (long long i = 0; i < n; ++i) sum += gradient(at / k * n + i) * w[i * k + at % k];
    dx[at] = sum;
    return;
  }
  at -= inputs;
  if (at < weights) {
    for (long long i = 0; i < m; ++i) sum += gradient(i * n + at / k) * x[i * k + at % k];
    dw[at] = sum;
    return;
  }
  at -= weights;
  if (at >= n) return;
  for (long long i = 0; i < m; ++i) sum += gradient(i * n + at);
  db[at] = sum;
}
