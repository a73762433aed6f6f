// The definition in C: each gradient of an output is added to the inputs and filter elements that were multiplied.

#include <string.h>

// dy: (n, k, p, q), x, dx: (n, c, h, w), f, df: (k, c / groups, r, s), db: (k); dx, df and db may be null.
void conv2d_backward(const float* restrict dy, const float* restrict x, const float* restrict f, float* restrict dx,
                     float* restrict df, float* restrict db, long n, long c, long h, long w, long k, long r, long s,
                     long p, long q, long stride_h, long stride_w, long pad_h, long pad_w, long dilation_h,
                     long dilation_w, long groups) {
  const long channels = c / groups, filters = k / groups, depth = channels * r * s;
  if (dx) memset(dx, 0, sizeof(float) * n * c * h * w);
  if (df) memset(df, 0, sizeof(float) * k * depth);
  if (db) memset(db, 0, sizeof(float) * k);
  for (long at = 0; at < n * k; ++at, dy += p * q) {
    const long image = at / k, filter = at % k;
    if (db) {
      float sum = 0;
      for (long e = 0; e < p * q; ++e) sum += dy[e];
      db[filter] += sum;
    }
    for (long j = 0; j < depth; ++j) {
      const long plane = (image * c + filter / filters * channels + j / (r * s)) * h * w;
      const long top = j / s % r * dilation_h - pad_h, left = j % s * dilation_w - pad_w;
      const float value = f[filter * depth + j];
      float sum = 0;
      for (long row = 0; row < p; ++row) {
        const long from = row * stride_h + top;
        if (from < 0 || from >= h) continue;
        for (long column = 0; column < q; ++column) {
          const long to = column * stride_w + left;
          if (to < 0 || to >= w) continue;
          if (dx) dx[plane + from * w + to] += dy[row * q + column] * value;
          sum += dy[row * q + column] * x[plane + from * w + to];
        }
      }
      if (df) df[filter * depth + j] += sum;
    }
  }
}
