// Adjacent windows of 2 x 2: a thread reads one gradient and one index, and writes its window by two 8-byte stores.

#include <warpwise/core/pack.cuh>

// dx: (planes, h, w), w even and dx aligned to 8 bytes; dy, indices: (planes, h / 2, w / 2). One thread per window,
// including windows with only the first row inside the image. rows = planes * cdiv(h, 2).
__global__ void max_pool2d_backward_halved(const float* dy, const int* indices, float* dx, int rows, int h, int w) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int ow = w / 2, oh = h / 2, half = (h + 1) / 2;
  if (i >= rows * ow) return;
  const int line = i / ow, column = i - line * ow;
  const int plane = line / half, row = line - plane * half;
  float gradient = 0.0f;
  int at = -1;
  if (row < oh) {
    const long long window = (static_cast<long long>(plane) * oh + row) * ow + column;
    gradient = dy[window];
    at = indices[window] - 2 * row * w - 2 * column;
  }
  warpwise::Pack<float, 8> above, below;
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    above.at[e] = at == e ? gradient : 0.0f;
    below.at[e] = at == w + e ? gradient : 0.0f;
  }
  float* const to = dx + (static_cast<long long>(plane) * h + 2 * row) * w + 2 * column;
  *warpwise::packs<8>(to) = above;
  if (row < oh) *warpwise::packs<8>(to + w) = below;
}
