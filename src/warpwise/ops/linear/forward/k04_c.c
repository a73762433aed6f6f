// The definition in C, element by element, with the epilogue before the store.

#include <math.h>

static float activate(float x, long activation) {  // in the order of core/activation.cuh
  if (activation == 1) return x < 0 ? 0 : x;
  if (activation == 2) return 0.5f * x * (1 + erff(0.70710678f * x));
  if (activation == 3) return x / (1 + expf(-x * (1.5957691f + 0.07135481f * x * x)));
  return x;
}

// x: (m, k), w: (n, k), bias: (n), residual: (m, n), scale: (m), y, before: (m, n); bias, residual, scale and before
// may be null. y = activate(scale * x w^T + bias) + residual; before is the activation's input.
void linear(const float* x, const float* w, const float* bias, const float* residual, const float* scale, float* y,
            float* before, long m, long n, long k, long activation) {
  for (long row = 0; row < m; ++row) {
    for (long column = 0; column < n; ++column) {
      const long at = row * n + column;
      float sum = 0;
      for (long i = 0; i < k; ++i) sum += x[row * k + i] * w[column * k + i];
      if (scale) sum *= scale[row];
      if (bias) sum += bias[column];
      if (before) before[at] = sum;
      y[at] = activate(sum, activation) + (residual ? residual[at] : 0);
    }
  }
}
