// The definition in C: the gradient of each window, divided by its size, is added to its pixels.

#include <string.h>

static long least(long a, long b) { return a < b ? a : b; }
static long most(long a, long b) { return a > b ? a : b; }

// dx: (planes, h, w); dy: (planes, oh, ow).
void avg_pool2d_backward(const float* restrict dy, float* restrict dx, long planes, long h, long w, long oh, long ow,
                         long kh, long kw, long stride_h, long stride_w, long pad_h, long pad_w, long padding_counts) {
  memset(dx, 0, sizeof(float) * planes * h * w);
  for (long plane = 0; plane < planes; ++plane, dx += h * w) {
    for (long i = 0; i < oh; ++i) {
      for (long j = 0; j < ow; ++j) {
        const long row = i * stride_h - pad_h, column = j * stride_w - pad_w;
        const long r0 = most(row, 0), r1 = least(row + kh, h), c0 = most(column, 0), c1 = least(column + kw, w);
        const long padded = (least(row + kh, h + pad_h) - row) * (least(column + kw, w + pad_w) - column);
        const float share = *dy++ / (float)(padding_counts ? padded : (r1 - r0) * (c1 - c0));
        for (long r = r0; r < r1; ++r) {
          for (long c = c0; c < c1; ++c) dx[r * w + c] += share;
        }
      }
    }
  }
}
