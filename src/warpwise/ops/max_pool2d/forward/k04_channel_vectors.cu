// NHWC and 16-bit types: a thread takes up to 16 bytes of adjacent channels, and windows of known size are unrolled.
//
// In NHWC the channels of a pixel are adjacent, so a warp reads 512 consecutive bytes. NCHW is the same with one
// channel and as many images.

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/pooling.cuh>

// x: (outer, h, w, inner); y, indices: (outer, oh, ow, inner). `total` vectors of VECTOR channels, `width` of a pixel.
// indices: row * w + column of the first maximum; NaN is the largest. With relu a maximum up to 0 is 0, its index -1.
template <class T, int VECTOR, int K, int S>
__global__ void max_pool2d_vectors(const T* x, T* y, int* indices, int total, int inner, int width, int h, int w,
                                   int oh, int ow, int kh, int kw, int stride_h, int stride_w, int pad_h, int pad_w,
                                   int relu) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= total) return;
  const auto pool = warpwise::Pooling::of<K, S>(h, w, oh, ow, kh, kw, stride_h, stride_w, pad_h, pad_w);
  const auto place = warpwise::Place::of(i, oh, ow, width);
  float best[VECTOR];
  int at[VECTOR];
#pragma unroll
  for (int e = 0; e < VECTOR; ++e) {
    best[e] = warpwise::minus_infinity();
    at[e] = -1;
  }
  warpwise::for_each_pixel<K, VECTOR>(pool, place, inner, [&](int r, int c, long long offset) {
    const auto values = *warpwise::packs<VECTOR * sizeof(T)>(x + offset);
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) {
      const float value = warpwise::to_float(values.at[e]);
      if (at[e] < 0 || value > best[e] || (value != value && best[e] == best[e])) {
        best[e] = value;
        at[e] = r * w + c;
      }
    }
  });
  warpwise::Pack<T, VECTOR * sizeof(T)> largest;
  warpwise::Pack<int, VECTOR * 4> places;
#pragma unroll
  for (int e = 0; e < VECTOR; ++e) {
    const bool zero = relu && best[e] <= 0;
    largest.at[e] = warpwise::from_float<T>(zero ? 0 : best[e]);
    places.at[e] = zero ? -1 : at[e];
  }
  *warpwise::packs<VECTOR * sizeof(T)>(y + static_cast<long long>(i) * VECTOR) = largest;
  *warpwise::packs<VECTOR * 4>(indices + static_cast<long long>(i) * VECTOR) = places;
}
