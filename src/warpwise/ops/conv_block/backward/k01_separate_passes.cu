// A thread per channel for the sums and a thread per pixel for the gradient of the convolution, then conv2d's backward.

// The gradient of gamma (y - mean) rstd + beta at a pixel: dy of its window if it is the window's first maximum above
// 0.
__device__ float at_pixel(const float* y, const float* dy, long long plane, int row, int column, int h, int w, float m,
                          float scale, float shift) {
  const int oh = h / 2, ow = w / 2, r = row / 2, c = column / 2;
  if (!dy || r >= oh || c >= ow) return 0.0f;
  float best = 0.0f;
  int at = -1;
  for (int e = 0; e < 4; ++e) {
    const float normal = (y[(plane * h + 2 * r + e / 2) * w + 2 * c + e % 2] - m) * scale + shift;
    if (normal > best) {
      best = normal;
      at = e;
    }
  }
  return at == row % 2 * 2 + column % 2 ? dy[(plane * oh + r) * ow + c] : 0.0f;
}

// dgamma = sum g h, dbeta = sum g, with h = (y - mean) rstd. y: (n, k, h, w), dy: (n, k, h / 2, w / 2) or null, the
// others: (k). One thread per channel.
__global__ void channel_gradients(const float* y, const float* dy, const float* mean, const float* var,
                                  const float* gamma, const float* beta, float* dgamma, float* dbeta, int n, int k,
                                  int h, int w, float eps) {
  const int channel = blockIdx.x * blockDim.x + threadIdx.x;
  if (channel >= k) return;
  const float m = mean[channel], rstd = rsqrtf(var[channel] + eps);
  float sum = 0.0f, dot = 0.0f;
  for (int e = 0; e < n * h * w; ++e) {
    const long long plane = static_cast<long long>(e / w / h) * k + channel;
    const int row = e / w % h, column = e % w;
    const float g = at_pixel(y, dy, plane, row, column, h, w, m, gamma[channel] * rstd, beta[channel]);
    sum += g;
    dot += g * (y[(plane * h + row) * w + column] - m) * rstd;
  }
  dgamma[channel] = dot;
  dbeta[channel] = sum;
}

// d: (n, k, h, w), the gradient of the convolution. One thread per element; dmean, dvar, dconv may be null.
__global__ void grad_convolved(const float* y, const float* dy, const float* dmean, const float* dvar,
                               const float* dconv, const float* mean, const float* var, const float* gamma,
                               const float* beta, const float* dgamma, const float* dbeta, float* d, int n, int k,
                               int h, int w, float eps) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n * k * h * w) return;
  const int column = i % w, row = i / w % h, plane = i / w / h, channel = plane % k;
  const float m = mean[channel], rstd = rsqrtf(var[channel] + eps);
  const float inverse = 1.0f / (static_cast<float>(n) * static_cast<float>(h * w)), centred = y[i] - m;
  const float g = at_pixel(y, dy, plane, row, column, h, w, m, gamma[channel] * rstd, beta[channel]);
  float sum = gamma[channel] * rstd * (g - (dbeta[channel] + centred * rstd * dgamma[channel]) * inverse);
  if (dmean) sum += dmean[channel] * inverse;
  if (dvar) sum += 2.0f * dvar[channel] * centred * inverse;
  d[i] = sum + (dconv ? dconv[i] : 0.0f);
}
