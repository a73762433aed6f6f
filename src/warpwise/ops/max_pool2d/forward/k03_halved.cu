// Adjacent windows of 2 x 2: no bounds checks, accesses of up to 16 bytes, and one division to find the windows.
//
// Adjacent windows are adjacent in memory, so a warp reads up to 512 consecutive bytes of each of two rows.

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/pack.cuh>

// x: (planes, h, w), w a multiple of 2 WINDOWS; y, indices: (planes, oh, ow), ow = w / 2. A thread computes WINDOWS
// adjacent windows; `total` threads. x is aligned to the accesses. With relu a maximum up to 0 is 0, and its index -1.
template <class T, int WINDOWS>
__global__ void max_pool2d_halved(const T* x, T* y, int* indices, int total, int h, int w, int oh, int ow, int relu) {
  constexpr int kBytes = 2 * WINDOWS * sizeof(T);
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= total) return;
  const int across = ow / WINDOWS, line = i / across, column = 2 * WINDOWS * (i - line * across);
  const int plane = line / oh, row = 2 * (line - plane * oh);
  const T* const from = x + (static_cast<long long>(plane) * h + row) * w + column;
  const auto above = *warpwise::packs<kBytes>(from), below = *warpwise::packs<kBytes>(from + w);
  warpwise::Pack<T, kBytes / 2> largest;
  warpwise::Pack<int, 4 * WINDOWS> places;
#pragma unroll
  for (int window = 0; window < WINDOWS; ++window) {
    const T values[4] = {above.at[2 * window], above.at[2 * window + 1], below.at[2 * window],
                         below.at[2 * window + 1]};
    float best = warpwise::to_float(values[0]);
    int at = 0;
#pragma unroll
    for (int e = 1; e < 4; ++e) {
      const float value = warpwise::to_float(values[e]);
      if (value > best || (value != value && best == best)) {
        best = value;
        at = e;
      }
    }
    const bool zero = relu && best <= 0;
    largest.at[window] = warpwise::from_float<T>(zero ? 0 : best);
    places.at[window] = zero ? -1 : (row + at / 2) * w + column + 2 * window + at % 2;
  }
  *warpwise::packs<kBytes / 2>(y + static_cast<long long>(i) * WINDOWS) = largest;
  *warpwise::packs<4 * WINDOWS>(indices + static_cast<long long>(i) * WINDOWS) = places;
}
