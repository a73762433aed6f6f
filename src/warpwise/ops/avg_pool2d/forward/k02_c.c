// The definition in C, window by window.

static long least(long a, long b) { return a < b ? a : b; }
static long most(long a, long b) { return a > b ? a : b; }

// x: (planes, h, w); y: (planes, oh, ow).
void avg_pool2d(const float* x, float* y, long planes, long h, long w, long oh, long ow, long kh, long kw,
                long stride_h, long stride_w, long pad_h, long pad_w, long padding_counts) {
  for (long plane = 0; plane < planes; ++plane, x += h * w) {
    for (long i = 0; i < oh; ++i) {
      for (long j = 0; j < ow; ++j) {
        const long row = i * stride_h - pad_h, column = j * stride_w - pad_w;
        const long r0 = most(row, 0), r1 = least(row + kh, h), c0 = most(column, 0), c1 = least(column + kw, w);
        float sum = 0;
        for (long r = r0; r < r1; ++r) {
          for (long c = c0; c < c1; ++c) sum += x[r * w + c];
        }
        const long padded = (least(row + kh, h + pad_h) - row) * (least(column + kw, w + pad_w) - column);
        *y++ = sum / (float)(padding_counts ? padded : (r1 - r0) * (c1 - c0));
      }
    }
  }
}
