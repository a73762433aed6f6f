// One thread per row computes its logits and its loss, then one thread adds the rows: the definition and the baseline.

#include <warpwise/core/numeric.cuh>

// x: (rows, features), w: (classes, features), b: (classes) or null, target: (rows), p: (rows, classes), losses:
// (rows). A target outside of the classes gives NaN, an ignored target 0.
__global__ void row_losses(const float* x, const float* w, const float* b, const long long* target, float* p,
                           float* losses, int rows, int features, int classes, long long ignore_index) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  x += static_cast<long long>(row) * features;
  p += static_cast<long long>(row) * classes;
  const long long t = target[row];
  const bool known = t >= 0 && t < classes;
  float max = warpwise::minus_infinity(), sum = 0.0f, chosen = 0.0f;
  for (int c = 0; c < classes; ++c) {
    float logit = 0.0f;
    for (int k = 0; k < features; ++k) logit += x[k] * w[static_cast<long long>(c) * features + k];
    if (b) logit += b[c];
    p[c] = logit;
    max = fmaxf(max, logit);
    if (c == t) chosen = logit;
  }
  for (int c = 0; c < classes; ++c) sum += expf(p[c] - max);
  for (int c = 0; c < classes; ++c) p[c] = expf(p[c] - max) / sum;
  losses[row] = t == ignore_index ? 0.0f : known ? logf(sum) - (chosen - max) : __int_as_float(0x7fffffff);
}

// loss = sum(losses) / count, count: the number of targets that are not ignored. One thread.
__global__ void mean_of_losses(const float* losses, const long long* target, float* loss, long long* count, int rows,
                               long long ignore_index) {
  float sum = 0.0f;
  int counted = 0;
  for (int row = 0; row < rows; ++row) {
    sum += losses[row];
    counted += target[row] != ignore_index;
  }
  *loss = sum / static_cast<float>(counted);
  *count = counted;
}
