// Adjacent windows of 2 x 2: no bounds checks, two 8-byte loads per window, and one division to find it.
//
// Adjacent windows are adjacent in memory, so a warp reads 256 consecutive bytes of each of two rows.

#include <warpwise/core/pack.cuh>

// x: (planes, h, w), w even and x aligned to 8 bytes; y, indices: (planes, oh, ow), ow = w / 2. rows = planes * oh.
__global__ void max_pool2d_halved(const float* x, float* y, int* indices, int rows, int h, int w, int oh, int ow) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * ow) return;
  const int line = i / ow, column = i - line * ow;
  const int plane = line / oh, row = 2 * (line - plane * oh);
  const float* const from = x + (static_cast<long long>(plane) * h + row) * w + 2 * column;
  const auto above = *warpwise::packs<8>(from), below = *warpwise::packs<8>(from + w);
  const float values[4] = {above.at[0], above.at[1], below.at[0], below.at[1]};
  float best = values[0];
  int at = 0;
#pragma unroll
  for (int e = 1; e < 4; ++e) {
    if (values[e] > best || (values[e] != values[e] && best == best)) {
      best = values[e];
      at = e;
    }
  }
  y[i] = best;
  indices[i] = (row + at / 2) * w + 2 * column + at % 2;
}
