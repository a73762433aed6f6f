// NHWC and 16-bit types: a thread takes up to 16 bytes of adjacent channels, and windows of known size are unrolled.

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/pooling.cuh>

// dx: (outer, h, w, inner); dy, indices: (outer, oh, ow, inner). `total` vectors of VECTOR channels, `width` of a
// pixel.
template <class T, int VECTOR, int K, int S>
__global__ void max_pool2d_backward_vectors(const T* dy, const int* indices, T* dx, int total, int inner, int width,
                                            int h, int w, int oh, int ow, int kh, int kw, int stride_h, int stride_w,
                                            int pad_h, int pad_w) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= total) return;
  const auto pool = warpwise::Pooling::of<K, S>(h, w, oh, ow, kh, kw, stride_h, stride_w, pad_h, pad_w);
  const auto place = warpwise::Place::of(i, h, w, width);
  const int pixel = place.row * w + place.column;
  float sums[VECTOR] = {};
  warpwise::for_each_window<K, S, VECTOR>(pool, place, inner, [&](int, int, long long offset) {
    const auto gradient = *warpwise::packs<VECTOR * sizeof(T)>(dy + offset);
    const auto at = *warpwise::packs<VECTOR * 4>(indices + offset);
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) {
      if (at.at[e] == pixel) sums[e] += warpwise::to_float(gradient.at[e]);
    }
  });
  warpwise::Pack<T, VECTOR * sizeof(T)> result;
#pragma unroll
  for (int e = 0; e < VECTOR; ++e) result.at[e] = warpwise::from_float<T>(sums[e]);
  *warpwise::packs<VECTOR * sizeof(T)>(dx + static_cast<long long>(i) * VECTOR) = result;
}
