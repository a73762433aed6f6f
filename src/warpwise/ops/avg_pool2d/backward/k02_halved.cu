// Adjacent windows of 2 x 2: a thread reads one gradient and writes its window by two 8-byte stores.

#include <warpwise/core/pack.cuh>

// dx: (planes, h, w), w even and dx aligned to 8 bytes; dy: (planes, h / 2, w / 2). One thread per window, including
// windows with only the first row inside the image. rows = planes * cdiv(h, 2).
__global__ void avg_pool2d_backward_halved(const float* dy, float* dx, int rows, int h, int w) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int ow = w / 2, oh = h / 2, half = (h + 1) / 2;
  if (i >= rows * ow) return;
  const int line = i / ow, column = i - line * ow;
  const int plane = line / half, row = line - plane * half;
  const float gradient = row < oh ? 0.25f * dy[(static_cast<long long>(plane) * oh + row) * ow + column] : 0.0f;
  const warpwise::Pack<float, 8> both = {{gradient, gradient}};
  float* const to = dx + (static_cast<long long>(plane) * h + 2 * row) * w + 2 * column;
  *warpwise::packs<8>(to) = both;
  if (row < oh) *warpwise::packs<8>(to + w) = both;
}
