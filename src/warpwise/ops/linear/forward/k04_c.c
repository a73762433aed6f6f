// The definition in C: a sum in double precision for each result, then the steps of the epilogue.

#include <math.h>

enum { kRelu = 1, kGelu, kGeluTanh };

static double activated(double v, long activation) {
  if (activation == kRelu) return v < 0 ? 0 : v;
  if (activation == kGelu) return v * 0.5 * (1 + erf(v * 0.70710678118654752));
  if (activation == kGeluTanh) return v * 0.5 * (1 + tanh(0.79788456080286536 * (v + 0.044715 * v * v * v)));
  return v;
}

// x: (m, k), w: (n, k), y: (m, n); bias: (n), residual and kept, the value before the activation: (m, n), row_scale:
// (m), each of which may be null.
void linear(const float* x, const float* w, const float* bias, const float* residual, const float* row_scale, float* y,
            float* kept, long m, long n, long k, long activation) {
  for (long at = 0; at < m * n; ++at) {
    const float *const from = x + at / n * k, *const row = w + at % n * k;
    double sum = 0;
    for (long i = 0; i < k; ++i) sum += (double)from[i] * row[i];
    if (row_scale) sum *= row_scale[at / n];
    if (bias) sum += bias[at % n];
    if (kept) kept[at] = (float)sum;
    y[at] = (float)(activated(sum, activation) + (residual ? residual[at] : 0));
  }
}
