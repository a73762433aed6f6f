// The definition in C: for each filter element a row of the image is added to a row of the output, so that the compiler
// vectorises the innermost loop where the horizontal stride is 1.

#include <string.h>

// x: (n, c, h, w), f: (k, c / groups, r, s), bias: (k) or null, y: (n, k, p, q).
void conv2d(const float* restrict x, const float* restrict f, const float* restrict bias, float* restrict y, long n,
            long c, long h, long w, long k, long r, long s, long p, long q, long stride_h, long stride_w, long pad_h,
            long pad_w, long dilation_h, long dilation_w, long groups) {
  const long channels = c / groups, filters = k / groups;
  for (long at = 0; at < n * k; ++at) {
    const long image = at / k, filter = at % k;
    float* const out = y + at * p * q;
    for (long e = 0; e < p * q; ++e) out[e] = bias ? bias[filter] : 0;
    for (long j = 0; j < channels * r * s; ++j) {
      const long channel = filter / filters * channels + j / (r * s), dy = j / s % r, dx = j % s;
      const float* const plane = x + (image * c + channel) * h * w;
      const float value = f[filter * channels * r * s + j];
      const long left = dx * dilation_w - pad_w;
      for (long row = 0; row < p; ++row) {
        const long from = row * stride_h - pad_h + dy * dilation_h;
        if (from < 0 || from >= h) continue;
        long first = 0, past = q;
        while (first < past && first * stride_w + left < 0) ++first;
        while (past > first && (past - 1) * stride_w + left >= w) --past;
        const float* const line = plane + from * w + left;
        if (stride_w == 1) {
          for (long column = first; column < past; ++column) out[row * q + column] += value * line[column];
        } else {
          for (long column = first; column < past; ++column) out[row * q + column] += value * line[column * stride_w];
        }
      }
    }
  }
}
