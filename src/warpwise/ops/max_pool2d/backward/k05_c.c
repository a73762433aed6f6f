// The definition in C: the gradient of each window is added to its maximum.

#include <string.h>

// dx: (planes, pixels); dy, indices: (planes, windows), -1 for a window without a maximum.
void max_pool2d_backward(const float* restrict dy, const int* restrict indices, float* restrict dx, long planes,
                         long pixels, long windows) {
  memset(dx, 0, sizeof(float) * planes * pixels);
  for (long plane = 0; plane < planes; ++plane, dx += pixels, dy += windows, indices += windows) {
    for (long i = 0; i < windows; ++i) {
      if (indices[i] >= 0) dx[indices[i]] += dy[i];
    }
  }
}
