// One thread per window, any stride and padding: the definition and the baseline.

// x: (planes, h, w); y, indices: (planes, oh, ow). indices: row * w + column of the first maximum; NaN is the largest.
// With relu a maximum up to 0 is 0, and its index -1.
__global__ void max_pool2d(const float* x, float* y, int* indices, int total, int h, int w, int oh, int ow, int kh,
                           int kw, int stride_h, int stride_w, int pad_h, int pad_w, int relu) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= total) return;
  const int column = i % ow * stride_w - pad_w, row = i / ow % oh * stride_h - pad_h, plane = i / ow / oh;
  float best = __int_as_float(0xff800000);
  int at = -1;
  for (int r = max(row, 0); r < min(row + kh, h); ++r) {
    for (int c = max(column, 0); c < min(column + kw, w); ++c) {
      const float value = x[(static_cast<long long>(plane) * h + r) * w + c];
      if (at < 0 || value > best || (value != value && best == best)) {
        best = value;
        at = r * w + c;
      }
    }
  }
  const bool zero = relu && best <= 0;
  y[i] = zero ? 0 : best;
  indices[i] = zero ? -1 : at;
}
