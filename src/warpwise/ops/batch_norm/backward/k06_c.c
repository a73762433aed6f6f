// The definition in C: the sums of dy and of dy (x - mean) of a channel, then the gradient, in double precision.

#include <math.h>

// x, dx: (n, channels, inner); dy: the same shape, or null; mean, var: (channels); all others: (channels) or null.
void batch_norm_backward(const float* dy, const float* dmean, const float* dvar, const float* x, const float* weight,
                         const float* mean, const float* var, float* dx, float* dw, float* db, long n, long channels,
                         long inner, float eps) {
  for (long c = 0; c < channels; ++c) {
    const double m = mean[c], rstd = 1 / sqrt((double)var[c] + eps), count = (double)(n * inner);
    double sum = 0, dot = 0;
    for (long i = 0; dy && i < n; ++i) {
      for (long e = (i * channels + c) * inner; e < (i * channels + c + 1) * inner; ++e) {
        sum += dy[e];
        dot += dy[e] * (x[e] - m) * rstd;
      }
    }
    const double scale = rstd * (weight ? weight[c] : 1), slope = (dvar ? 2 * dvar[c] : 0) - scale * rstd * dot;
    const double constant = (dmean ? dmean[c] : 0) - scale * sum;
    for (long i = 0; i < n; ++i) {
      for (long e = (i * channels + c) * inner; e < (i * channels + c + 1) * inner; ++e) {
        dx[e] = (float)((dy ? scale * dy[e] : 0) + (slope * (x[e] - m) + constant) / count);
      }
    }
    if (dw) dw[c] = (float)dot;
    if (db) db[c] = (float)sum;
  }
}
