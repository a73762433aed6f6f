// One kernel for each step, one thread for each result: convolution, statistics of a channel, normalised maximum.

// y: (n, k, h, w) = the convolution of x: (n, c, h, w) with f: (k, c, 3, 3), padded by 1. One thread per element of y.
__global__ void convolution(const float* x, const float* f, float* y, int n, int c, int h, int w, int k) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n * k * h * w) return;
  const int column = i % w, row = i / w % h, filter = i / w / h % k, image = i / w / h / k;
  float sum = 0.0f;
  for (int channel = 0; channel < c; ++channel) {
    const float* const plane = x + (static_cast<long long>(image) * c + channel) * h * w;
    for (int e = 0; e < 9; ++e) {
      const int at_h = row + e / 3 - 1, at_w = column + e % 3 - 1;
      if (at_h < 0 || at_h >= h || at_w < 0 || at_w >= w) continue;
      sum += plane[at_h * w + at_w] * f[(filter * c + channel) * 9 + e];
    }
  }
  y[i] = sum;
}

// mean, var: (k) of y: (n, k, pixels). One thread per channel.
__global__ void statistics(const float* y, float* mean, float* var, int n, int k, int pixels) {
  const int channel = blockIdx.x * blockDim.x + threadIdx.x;
  if (channel >= k) return;
  float sum = 0.0f, squares = 0.0f;
  const float count = static_cast<float>(n) * static_cast<float>(pixels);
  for (int e = 0; e < n * pixels; ++e) {
    sum += y[(static_cast<long long>(e / pixels) * k + channel) * pixels + e % pixels];
  }
  const float m = sum / count;
  for (int e = 0; e < n * pixels; ++e) {
    const float centred = y[(static_cast<long long>(e / pixels) * k + channel) * pixels + e % pixels] - m;
    squares += centred * centred;
  }
  mean[channel] = m;
  var[channel] = squares / count;
}

// out: (n, k, h / 2, w / 2) = the maximum over 2 x 2 windows of relu(gamma (y - mean) / sqrt(var + eps) + beta).
__global__ void normalised_maximum(const float* y, const float* mean, const float* var, const float* gamma,
                                   const float* beta, float* out, int planes, int k, int h, int w, float eps) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, oh = h / 2, ow = w / 2;
  if (i >= planes * oh * ow) return;
  const int column = i % ow * 2, row = i / ow % oh * 2, plane = i / ow / oh, channel = plane % k;
  const float m = mean[channel], scale = gamma[channel] * rsqrtf(var[channel] + eps);
  float best = 0.0f;
  for (int e = 0; e < 4; ++e) {
    const float value = y[(static_cast<long long>(plane) * h + row + e / 2) * w + column + e % 2];
    const float normal = (value - m) * scale + beta[channel];
    if (normal > best || normal != normal) best = normal;
  }
  out[i] = best;
}
