// Adjacent windows of 2 x 2: a thread reads the gradients and indices of its windows and writes two rows of them.

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/pack.cuh>

// dx: (planes, h, w), w a multiple of 2 WINDOWS; dy, indices: (planes, h / 2, w / 2), aligned to the accesses. A thread
// computes WINDOWS adjacent windows, including windows with only the first row inside the image; `total` threads.
template <class T, int WINDOWS>
__global__ void max_pool2d_backward_halved(const T* dy, const int* indices, T* dx, int total, int h, int w) {
  constexpr int kBytes = 2 * WINDOWS * sizeof(T);
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= total) return;
  const int ow = w / 2, oh = h / 2, half = (h + 1) / 2, across = ow / WINDOWS;
  const int line = i / across, column = WINDOWS * (i - line * across);
  const int plane = line / half, row = line - plane * half;
  const bool inside = row < oh;
  warpwise::Pack<T, kBytes / 2> gradient = {};
  warpwise::Pack<int, 4 * WINDOWS> places = {};
  if (inside) {
    const long long window = (static_cast<long long>(plane) * oh + row) * ow + column;
    gradient = *warpwise::packs<kBytes / 2>(dy + window);
    places = *warpwise::packs<4 * WINDOWS>(indices + window);
  }
  warpwise::Pack<T, kBytes> above, below;
  const T zero = warpwise::from_float<T>(0.0f);
#pragma unroll
  for (int window = 0; window < WINDOWS; ++window) {
    const int at = inside ? places.at[window] - 2 * row * w - 2 * (column + window) : -1;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      above.at[2 * window + e] = at == e ? gradient.at[window] : zero;
      below.at[2 * window + e] = at == w + e ? gradient.at[window] : zero;
    }
  }
  T* const to = dx + (static_cast<long long>(plane) * h + 2 * row) * w + 2 * column;
  *warpwise::packs<kBytes>(to) = above;
  if (inside) *warpwise::packs<kBytes>(to + w) = below;
}
