// The definition in C: the gradient of each logit is added to the three gradients.

#include <string.h>

// p: (rows, classes), x, dx: (rows, features), w, dw: (classes, features), db: (classes), target: (rows); grad, count:
// one element; dx and db may be null.
void linear_cross_entropy_backward(const float* grad, const float* restrict x, const float* restrict w,
                                   const long long* target, const float* p, const long long* count, float* restrict dx,
                                   float* restrict dw, float* restrict db, long rows, long features, long classes,
                                   long ignore_index) {
  memset(dw, 0, sizeof(float) * classes * features);
  if (dx) memset(dx, 0, sizeof(float) * rows * features);
  if (db) memset(db, 0, sizeof(float) * classes);
  for (long row = 0; row < rows; ++row, x += features) {
    if (target[row] == ignore_index) continue;
    for (long c = 0; c < classes; ++c) {
      const float d = (p[row * classes + c] - (c == target[row])) * *grad / (float)*count;
      if (db) db[c] += d;
      for (long k = 0; k < features; ++k) dw[c * features + k] += d * x[k];
      if (!dx) continue;
      for (long k = 0; k < features; ++k) dx[row * features + k] += d * w[c * features + k];
    }
  }
}
