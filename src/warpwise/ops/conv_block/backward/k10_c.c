// The definition in C: the gradient of the convolution's output in double precision; conv2d's backward uses it.

#include <math.h>

// The pixel of a 2 x 2 window that passes the gradient on: the first maximum above 0; -1 if there is none.
static int maximum(const float* window, long w, float m, float scale, float shift) {
  float best = 0;
  int at = -1;
  for (int e = 0; e < 4; ++e) {
    const float normal = (window[e / 2 * w + e % 2] - m) * scale + shift;
    if (normal > best) {
      best = normal;
      at = e;
    }
  }
  return at;
}

// y, d, dconv: (n, k, h, w), dy: (n, k, h / 2, w / 2), the others: (k). dy, dmean, dvar and dconv may be null.
// d is first g, the gradient of the normalised values, then that of y.
void grad_convolved(const float* y, const float* dy, const float* dmean, const float* dvar, const float* dconv,
                    const float* mean, const float* var, const float* gamma, const float* beta, float* dgamma,
                    float* dbeta, float* d, long n, long k, long h, long w, float eps) {
  const long windows = (h / 2) * (w / 2);
  const double inverse = 1 / ((double)n * (double)(h * w));
  for (long channel = 0; channel < k; ++channel) {
    const float m = mean[channel];
    const double rstd = 1 / sqrt((double)var[channel] + eps);
    double sum = 0, dot = 0;
    for (long image = 0; image < n; ++image) {
      const float* const plane = y + (image * k + channel) * h * w;
      float* const to = d + (image * k + channel) * h * w;
      for (long e = 0; e < h * w; ++e) to[e] = 0;
      for (long i = 0; dy && i < windows; ++i) {
        const long corner = i / (w / 2) * 2 * w + i % (w / 2) * 2;
        const int at = maximum(plane + corner, w, m, (float)(gamma[channel] * rstd), beta[channel]);
        if (at < 0) continue;
        const long pixel = corner + at / 2 * w + at % 2;
        const float g = dy[(image * k + channel) * windows + i];
        to[pixel] = g;
        sum += g;
        dot += g * (plane[pixel] - m) * rstd;
      }
    }
    dgamma[channel] = (float)dot;
    dbeta[channel] = (float)sum;
    for (long image = 0; image < n; ++image) {
      const long from = (image * k + channel) * h * w;
      for (long e = from; e < from + h * w; ++e) {
        const double centred = y[e] - m;
        double value = gamma[channel] * rstd * (d[e] - (sum + centred * rstd * dot) * inverse);
        if (dmean) value += dmean[channel] * inverse;
        if (dvar) value += 2 * dvar[channel] * centred * inverse;
        d[e] = (float)(value + (dconv ? dconv[e] : 0));
      }
    }
  }
}
