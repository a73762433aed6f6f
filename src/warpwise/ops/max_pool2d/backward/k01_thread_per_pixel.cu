// One thread per pixel adds the gradients of the windows whose maximum it is: no atomics, so the order is fixed.

// dx: (planes, h, w); dy, indices: (planes, oh, ow). A window at row i covers the rows from i * stride - pad.
__global__ void max_pool2d_backward(const float* dy, const int* indices, float* dx, int total, int h, int w, int oh,
                                    int ow, int kh, int kw, int stride_h, int stride_w, int pad_h, int pad_w) {
  const int pixel = blockIdx.x * blockDim.x + threadIdx.x;
  if (pixel >= total) return;
  const int column = pixel % w, row = pixel / w % h, plane = pixel / w / h;
  const int r1 = min((row + pad_h) / stride_h, oh - 1), c1 = min((column + pad_w) / stride_w, ow - 1);
  const int r0 = max((row + pad_h - kh + stride_h) / stride_h, 0);
  const int c0 = max((column + pad_w - kw + stride_w) / stride_w, 0);
  float sum = 0.0f;
  for (int r = r0; r <= r1; ++r) {
    for (int c = c0; c <= c1; ++c) {
      const long long window = (static_cast<long long>(plane) * oh + r) * ow + c;
      if (indices[window] == row * w + column) sum += dy[window];
    }
  }
  dx[pixel] = sum;
}
