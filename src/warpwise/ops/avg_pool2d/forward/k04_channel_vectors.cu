// NHWC and 16-bit types: a thread takes up to 16 bytes of adjacent channels, and windows of known size are unrolled.

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/pooling.cuh>

// x: (outer, h, w, inner); y: (outer, oh, ow, inner). `total` vectors of VECTOR channels, `width` of a pixel. The
// divisor is the size of the window, cut at the end of the padding, or the size of its part inside the image.
template <class T, int VECTOR, int K, int S>
__global__ void avg_pool2d_vectors(const T* x, T* y, int total, int inner, int width, int h, int w, int oh, int ow,
                                   int kh, int kw, int stride_h, int stride_w, int pad_h, int pad_w,
                                   bool padding_counts) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= total) return;
  const auto pool = warpwise::Pooling::of<K, S>(h, w, oh, ow, kh, kw, stride_h, stride_w, pad_h, pad_w);
  const auto place = warpwise::Place::of(i, oh, ow, width);
  float sums[VECTOR] = {};
  warpwise::for_each_pixel<K, VECTOR>(pool, place, inner, [&](int, int, long long offset) {
    const auto values = *warpwise::packs<VECTOR * sizeof(T)>(x + offset);
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) sums[e] += warpwise::to_float(values.at[e]);
  });
  const auto size = static_cast<float>(warpwise::pixels(pool, place.row, place.column, padding_counts));
  warpwise::Pack<T, VECTOR * sizeof(T)> result;
#pragma unroll
  for (int e = 0; e < VECTOR; ++e) result.at[e] = warpwise::from_float<T>(sums[e] / size);
  *warpwise::packs<VECTOR * sizeof(T)>(y + static_cast<long long>(i) * VECTOR) = result;
}
