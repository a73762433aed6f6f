// The definition in C, step by step.

#include <math.h>

// x: (n, c, h, w), f: (k, c, 3, 3), y: (n, k, h, w), out: (n, k, h / 2, w / 2), the others: (k).
void conv_block(const float* restrict x, const float* restrict f, const float* gamma,
                const float* beta, float* restrict out, float* mean, float* var, float* restrict y, long n, long c,
                long h, long w, long k, float eps) {
  for (long at = 0; at < n * k; ++at) {
    float* const plane = y + at * h * w;
    for (long e = 0; e < h * w; ++e) plane[e] = 0;
    for (long j = 0; j < 9 * c; ++j) {
      const float* const from = x + (at / k * c + j / 9) * h * w;
      const float value = f[at % k * 9 * c + j];
      const long down = j / 3 % 3 - 1, across = j % 3 - 1;
      for (long r = down < 0; r < h - (down > 0); ++r) {
        for (long s = across < 0; s < w - (across > 0); ++s) {
          plane[r * w + s] += value * from[(r + down) * w + s + across];
        }
      }
    }
  }
  for (long channel = 0; channel < k; ++channel) {
    double sum = 0, squares = 0;
    for (long e = 0; e < n * h * w; ++e) sum += y[(e / (h * w) * k + channel) * h * w + e % (h * w)];
    const double m = sum / (double)(n * h * w);
    for (long e = 0; e < n * h * w; ++e) {
      const double centred = y[(e / (h * w) * k + channel) * h * w + e % (h * w)] - m;
      squares += centred * centred;
    }
    mean[channel] = (float)m;
    var[channel] = (float)(squares / (double)(n * h * w));
    const float scale = (float)(gamma[channel] / sqrt(squares / (double)(n * h * w) + eps));
    for (long image = 0; image < n; ++image) {
      const float* const plane = y + (image * k + channel) * h * w;
      float* const to = out + (image * k + channel) * (h / 2) * (w / 2);
      for (long i = 0; i < (h / 2) * (w / 2); ++i) {
        const float* const from = plane + i / (w / 2) * 2 * w + i % (w / 2) * 2;
        float best = 0;
        for (int e = 0; e < 4; ++e) {
          const float normal = (float)(from[e / 2 * w + e % 2] - m) * scale + beta[channel];
          if (normal > best || normal != normal) best = normal;
        }
        to[i] = best;
      }
    }
  }
}
