// The definition in C: each channel read three times, in double precision.

#include <math.h>

// x, y: (n, channels, inner), mean, var: (channels); weight, bias: (channels) or null.
void batch_norm(const float* x, const float* weight, const float* bias, float* y, float* mean, float* var, long n,
                long channels, long inner, float eps) {
  for (long c = 0; c < channels; ++c) {
    double sum = 0, squares = 0;
    for (long i = 0; i < n; ++i) {
      for (long e = 0; e < inner; ++e) sum += x[(i * channels + c) * inner + e];
    }
    const double m = sum / (double)(n * inner);
    for (long i = 0; i < n; ++i) {
      for (long e = 0; e < inner; ++e) {
        const double centred = x[(i * channels + c) * inner + e] - m;
        squares += centred * centred;
      }
    }
    const double v = squares / (double)(n * inner);
    const double scale = (weight ? weight[c] : 1) / sqrt(v + eps), shift = bias ? bias[c] : 0;
    for (long i = 0; i < n; ++i) {
      for (long e = 0; e < inner; ++e) {
        const long at = (i * channels + c) * inner + e;
        y[at] = (float)((x[at] - m) * scale + shift);
      }
    }
    mean[c] = (float)m;
    var[c] = (float)v;
  }
}
