// One thread per row, three passes over it: the definition and the baseline.

#include <warpwise/core/numeric.cuh>

// dx = (softmax(x) - one_hot(target)) * grad / count. x, dx: (rows, classes), target: (rows); grad, count: one element.
__global__ void cross_entropy_backward(const float* grad, const float* x, const long long* target,
                                       const long long* count, float* dx, int rows, int classes,
                                       long long ignore_index) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  x += static_cast<long long>(row) * classes;
  dx += static_cast<long long>(row) * classes;
  const float scale = target[row] == ignore_index ? 0.0f : *grad / static_cast<float>(*count);
  float max = x[0];
  for (int c = 1; c < classes; ++c) max = fmaxf(max, x[c]);
  float sum = 0.0f;
  for (int c = 0; c < classes; ++c) sum += expf(x[c] - max);
  for (int c = 0; c < classes; ++c) dx[c] = (expf(x[c] - max) / sum - (c == target[row] ? 1.0f : 0.0f)) * scale;
}
