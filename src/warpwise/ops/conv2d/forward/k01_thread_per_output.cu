// One thread per output element, any stride, padding, dilation and groups: the definition and the baseline.

// x: (n, c, h, w), f: (k, c / groups, r, s), bias: (k) or null, y: (n, k, p, q), contiguous. Grid: cdiv(n k p q,
// blockDim.x) blocks.
__global__ void conv2d(const float* x, const float* f, const float* bias, float* y, int n, int c, int h, int w, int k,
                       int r, int s, int p, int q, int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h,
                       int dilation_w, int groups) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n * k * p * q) return;
  const int filter = i / q / p % k, channels = c / groups;
  const int row = i / q % p * stride_h - pad_h, column = i % q * stride_w - pad_w;
  x += (static_cast<long long>(i / q / p / k) * c + filter / (k / groups) * channels) * h * w;
  f += static_cast<long long>(filter) * channels * r * s;
  float sum = bias ? bias[filter] : 0.0f;
  for (int channel = 0; channel < channels; ++channel) {
    for (int dy = 0; dy < r; ++dy) {
      for (int dx = 0; dx < s; ++dx) {
        const int at_h = row + dy * dilation_h, at_w = column + dx * dilation_w;
        if (at_h < 0 || at_h >= h || at_w < 0 || at_w >= w) continue;
        sum += x[(channel * h + at_h) * w + at_w] * f[(channel * r + dy) * s + dx];
      }
    }
  }
  y[i] = sum;
}
