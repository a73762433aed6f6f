// One thread per element of each gradient, any stride, padding, dilation and groups: the definition and the baseline.

// dx[m, j, h, w] = sum over filters and windows that read it. dx: (n, c, h, w), dy: (n, k, p, q), f: (k, c / groups, r,
// s). One thread per element of dx.
__global__ void conv2d_grad_input(const float* dy, const float* f, float* dx, int n, int c, int h, int w, int k, int r,
                                  int s, int p, int q, int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h,
                                  int dilation_w, int groups) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n * c * h * w) return;
  const int channels = c / groups, filters = k / groups;
  const int column = i % w, row = i / w % h, channel = i / w / h % c, image = i / w / h / c;
  float sum = 0.0f;
  for (int e = 0; e < filters * r * s; ++e) {
    const int filter = channel / channels * filters + e / (r * s), at_r = e / s % r, at_s = e % s;
    const int down = row + pad_h - at_r * dilation_h, across = column + pad_w - at_s * dilation_w;
    if (down < 0 || across < 0 || down % stride_h || across % stride_w) continue;
    if (down / stride_h >= p || across / stride_w >= q) continue;
    sum += f[((filter * channels + channel % channels) * r + at_r) * s + at_s] *
           dy[((static_cast<long long>(image) * k + filter) * p + down / stride_h) * q + across / stride_w];
  }
  dx[i] = sum;
}

// df[k, j, r, s] = sum over images and pixels of dy * x. One thread per element of df: (k, c / groups, r, s).
__global__ void conv2d_grad_weight(const float* dy, const float* x, float* df, int n, int c, int h, int w, int k, int r,
                                   int s, int p, int q, int stride_h, int stride_w, int pad_h, int pad_w,
                                   int dilation_h, int dilation_w, int groups) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, channels = c / groups;
  if (i >= k * channels * r * s) return;
  const int at_s = i % s, at_r = i / s % r, filter = i / s / r / channels;
  const int channel = filter / (k / groups) * channels + i / s / r % channels;
  float sum = 0.0f;
  for (long long image = 0; image < n; ++image) {
    for (int pixel = 0; pixel < p * q; ++pixel) {
      const int row = pixel / q * stride_h - pad_h + at_r * dilation_h;
      const int column = pixel % q * stride_w - pad_w + at_s * dilation_w;
      if (row < 0 || row >= h || column < 0 || column >= w) continue;
      sum += dy[(image * k + filter) * p * q + pixel] * x[((image * c + channel) * h + row) * w + column];
    }
  }
  df[i] = sum;
}

// db: (k) = the sum of dy over images and pixels. One thread per filter.
__global__ void conv2d_grad_bias(const float* dy, float* db, int n, int k, int pixels) {
  const int filter = blockIdx.x * blockDim.x + threadIdx.x;
  if (filter >= k) return;
  float sum = 0.0f;
  for (long long image = 0; image < n; ++image) {
    for (int pixel = 0; pixel < pixels; ++pixel) sum += dy[(image * k + filter) * pixels + pixel];
  }
  db[filter] = sum;
}
