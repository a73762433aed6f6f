// The definition in C: each element of dy, or 0 where the relu's output is 0, is added to the three gradients.

#include <string.h>

// dy: (m, n), y: (m, n), the output of the relu, or null; x, dx: (m, k), w, dw: (n, k), db: (n); dx may be null.
void linear_backward(const float* restrict dy, const float* restrict y, const float* restrict x,
                     const float* restrict w, float* restrict dx, float* restrict dw, float* restrict db, long m,
                     long n, long k) {
  if (dx) memset(dx, 0, sizeof(float) * m * k);
  memset(dw, 0, sizeof(float) * n * k);
  memset(db, 0, sizeof(float) * n);
  for (long row = 0; row < m; ++row) {
    for (long column = 0; column < n; ++column) {
      const float d = y && !(y[row * n + column] > 0) ? 0 : dy[row * n + column];
      db[column] += d;
      for (long i = 0; i < k; ++i) dw[column * k + i] += d * x[row * k + i];
      if (!dx) continue;
      for (long i = 0; i < k; ++i) dx[row * k + i] += d * w[column * k + i];
    }
  }
}
