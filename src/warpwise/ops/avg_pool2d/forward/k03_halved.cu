// Adjacent windows of 2 x 2: no bounds checks, accesses of up to 16 bytes, and one division to find the windows.

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/pack.cuh>

// x: (planes, h, w), w a multiple of 2 WINDOWS; y: (planes, oh, ow), ow = w / 2. A thread computes WINDOWS adjacent
// windows; `total` threads. x is aligned to the accesses.
template <class T, int WINDOWS>
__global__ void avg_pool2d_halved(const T* x, T* y, int total, int h, int w, int oh, int ow) {
  constexpr int kBytes = 2 * WINDOWS * sizeof(T);
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= total) return;
  const int across = ow / WINDOWS, line = i / across, column = 2 * WINDOWS * (i - line * across);
  const int plane = line / oh, row = 2 * (line - plane * oh);
  const T* const from = x + (static_cast<long long>(plane) * h + row) * w + column;
  const auto above = *warpwise::packs<kBytes>(from), below = *warpwise::packs<kBytes>(from + w);
  warpwise::Pack<T, kBytes / 2> means;
#pragma unroll
  for (int window = 0; window < WINDOWS; ++window) {
    const float top = warpwise::to_float(above.at[2 * window]) + warpwise::to_float(above.at[2 * window + 1]);
    const float bottom = warpwise::to_float(below.at[2 * window]) + warpwise::to_float(below.at[2 * window + 1]);
    means.at[window] = warpwise::from_float<T>(0.25f * (top + bottom));
  }
  *warpwise::packs<kBytes / 2>(y + static_cast<long long>(i) * WINDOWS) = means;
}
