// Adjacent windows of 2 x 2: no bounds checks, two 8-byte loads per window, and one division to find it.

#include <warpwise/core/pack.cuh>

// x: (planes, h, w), w even and x aligned to 8 bytes; y: (planes, oh, ow), ow = w / 2. rows = planes * oh.
__global__ void avg_pool2d_halved(const float* x, float* y, int rows, int h, int w, int oh, int ow) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows * ow) return;
  const int line = i / ow, column = i - line * ow;
  const int plane = line / oh, row = 2 * (line - plane * oh);
  const float* const from = x + (static_cast<long long>(plane) * h + row) * w + 2 * column;
  const auto above = *warpwise::packs<8>(from), below = *warpwise::packs<8>(from + w);
  y[i] = 0.25f * (above.at[0] + above.at[1] + (below.at[0] + below.at[1]));
}
