// One thread per window, any stride and padding: the definition and the baseline.

// x: (planes, h, w); y: (planes, oh, ow). The divisor is the size of the window, cut at the end of the padding, or the
// size of its part inside the image.
__global__ void avg_pool2d(const float* x, float* y, int total, int h, int w, int oh, int ow, int kh, int kw,
                           int stride_h, int stride_w, int pad_h, int pad_w, bool padding_counts) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= total) return;
  const int column = i % ow * stride_w - pad_w, row = i / ow % oh * stride_h - pad_h, plane = i / ow / oh;
  const int r0 = max(row, 0), r1 = min(row + kh, h), c0 = max(column, 0), c1 = min(column + kw, w);
  float sum = 0.0f;
  for (int r = r0; r < r1; ++r) {
    for (int c = c0; c < c1; ++c) sum += x[(static_cast<long long>(plane) * h + r) * w + c];
  }
  const int size = padding_counts ? (min(row + kh, h + pad_h) - row) * (min(column + kw, w + pad_w) - column)
                                  : (r1 - r0) * (c1 - c0);
  y[i] = sum / static_cast<float>(size);
}
