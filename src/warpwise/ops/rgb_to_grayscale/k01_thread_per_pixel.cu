// One thread per pixel, any strides: loads coalesce for planar images; for interleaved uint8 lanes are 3 bytes apart.
#include "gray.cuh"

// image: (n, 3, height, width) with strides in elements; out: (n, 1, height, width), contiguous. Grid: ceil(pixels /
// blockDim.x).
template <typename T>
__global__ void rgb_to_grayscale(const T* image, T* out, long long n, long long height, long long width,
                                 long long image_stride, long long channel_stride, long long row_stride,
                                 long long column_stride) {
  const long long pixel = warpwise::global_thread();
  if (pixel >= n * height * width) return;
  const long long row = pixel / width;
  const T* red = image + row / height * image_stride + row % height * row_stride + pixel % width * column_stride;
  out[pixel] = gray(red[0], red[channel_stride], red[2 * channel_stride]);
}
