// One thread per element of each gradient, three launches: the definition and the baseline.

#include <warpwise/core/numeric.cuh>

// d = (p - one_hot(target)) * grad / count, the gradient of a logit; 0 in rows that are ignored.
__device__ inline float logit_gradient(const float* p, const long long* target, float scale, long long row, int c,
                                       int classes, long long ignore_index) {
  const long long t = target[row];
  return t == ignore_index ? 0.0f : (p[row * classes + c] - (c == t ? 1.0f : 0.0f)) * scale;
}

// p: (rows, classes), target: (rows), w: (classes, features), dx: (rows, features) = d w; grad, count: one element.
// Grid: cdiv(rows * features, blockDim.x).
__global__ void input_gradient(const float* grad, const float* p, const long long* target, const long long* count,
                               const float* w, float* dx, int rows, int features, int classes, long long ignore_index) {
  const long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= static_cast<long long>(rows) * features) return;
  const long long row = at / features, k = at % features;
  const float scale = *grad / static_cast<float>(*count);
  float sum = 0.0f;
  for (int c = 0; c < classes; ++c)
    sum +=
        logit_gradient(p, target, scale, row, c, classes, ignore_index) * w[c * static_cast<long long>(features) + k];
  dx[at] = sum;
}

// x: (rows, features), dw: (classes, features) = d^T x. Grid: cdiv(classes * features, blockDim.x).
__global__ void weight_gradient(const float* grad, const float* p, const long long* target, const long long* count,
                                const float* x, float* dw, int rows, int features, int classes,
                                long long ignore_index) {
  const long long at = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= static_cast<long long>(classes) * features) return;
  const long long k = at % features;
  const int c = static_cast<int>(at / features);
  const float scale = *grad / static_cast<float>(*count);
  float sum = 0.0f;
  for (long long row = 0; row < rows; ++row)
    sum += logit_gradient(p, target, scale, row, c, classes, ignore_index) * x[row * features + k];
  dw[at] = sum;
}

// db: (classes), the sum of d over rows. Grid: cdiv(classes, blockDim.x).
__global__ void bias_gradient(const float* grad, const float* p, const long long* target, const long long* count,
                              float* db, int rows, int classes, long long ignore_index) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= classes) return;
  const float scale = *grad / static_cast<float>(*count);
  float sum = 0.0f;
  for (long long row = 0; row < rows; ++row) sum += logit_gradient(p, target, scale, row, c, classes, ignore_index);
  db[c] = sum;
}
