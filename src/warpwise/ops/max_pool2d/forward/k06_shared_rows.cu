// NCHW and windows that overlap: a thread computes four windows, one below the other, from the maxima of rows.
//
// The largest of K pixels of a row is the same for each window that contains them. With K = 5 and stride 1 four windows
// have 8 such rows in place of 20: 40 loads in place of 100, and 60 comparisons in place of 100.

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/pooling.cuh>

constexpr int kWindows = 4;

// The first maximum in the order of the pixels; NaN is the largest.
struct Largest {
  float value = warpwise::minus_infinity();
  int at = -1;

  __device__ void take(float other, int place) {
    if (at < 0 || other > value || (other != other && value == value)) {
      value = other;
      at = place;
    }
  }
};

// x: (planes, h, w); y, indices: (planes, oh, ow). A thread for each of planes x groups x ow; groups = oh / kWindows,
// rounded up. indices: row * w + column. With relu a maximum up to 0 is 0, and its index -1.
template <class T, int K, int S>
__global__ void max_pool2d_rows(const T* x, T* y, int* indices, int total, int groups, int h, int w, int oh, int ow,
                                int pad_h, int pad_w, int relu) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= total) return;
  const auto place = warpwise::Place::of(i, groups, ow, 1);
  const int first = place.row * kWindows, top = first * S - pad_h, left = place.column * S - pad_w;
  const T* const plane = x + static_cast<long long>(place.outer) * h * w;
  Largest largest[kWindows];
#pragma unroll
  for (int r = 0; r < K + (kWindows - 1) * S; ++r) {
    const int row = top + r;
    if (row < 0 || row >= h) continue;
    Largest of_row;
#pragma unroll
    for (int c = 0; c < K; ++c) {
      const int column = left + c;
      if (column >= 0 && column < w) of_row.take(warpwise::to_float(plane[row * w + column]), row * w + column);
    }
#pragma unroll
    for (int window = 0; window < kWindows; ++window) {
      if (r >= window * S && r < window * S + K) largest[window].take(of_row.value, of_row.at);
    }
  }
  const long long to = (static_cast<long long>(place.outer) * oh + first) * ow + place.column;
#pragma unroll
  for (int window = 0; window < kWindows; ++window) {
    if (first + window >= oh) return;
    const bool zero = relu && largest[window].value <= 0;
    y[to + window * ow] = warpwise::from_float<T>(zero ? 0 : largest[window].value);
    indices[to + window * ow] = zero ? -1 : largest[window].at;
  }
}
