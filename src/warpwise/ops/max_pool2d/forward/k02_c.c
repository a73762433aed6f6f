// The definition in C, window by window.

// x: (planes, h, w); y, indices: (planes, oh, ow). indices: row * w + column of the first maximum; NaN is the largest.
// With relu a maximum up to 0 is 0, and its index -1.
void max_pool2d(const float* x, float* y, int* indices, long planes, long h, long w, long oh, long ow, long kh, long kw,
                long stride_h, long stride_w, long pad_h, long pad_w, long relu) {
  for (long plane = 0; plane < planes; ++plane, x += h * w) {
    for (long i = 0; i < oh; ++i) {
      for (long j = 0; j < ow; ++j) {
        const long row = i * stride_h - pad_h, column = j * stride_w - pad_w;
        const long r1 = row + kh < h ? row + kh : h, c1 = column + kw < w ? column + kw : w;
        float best = 0;
        long at = -1;
        for (long r = row > 0 ? row : 0; r < r1; ++r) {
          for (long c = column > 0 ? column : 0; c < c1; ++c) {
            const float value = x[r * w + c];
            if (at < 0 || value > best || (value != value && best == best)) best = value, at = r * w + c;
          }
        }
        if (relu && best <= 0) best = 0, at = -1;
        *y++ = best;
        *indices++ = (int)at;
      }
    }
  }
}
