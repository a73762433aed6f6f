// 16 bytes of each plane per thread: 16 uint8 pixels in 4 accesses instead of 64, and no division to find a pixel.
#include "gray.cuh"

// image: (n, 3, pixels), out: (n, pixels), contiguous. Grid: x covers the packs of a plane, y strides over images.
template <typename T>
__global__ void rgb_to_grayscale(const T* image, T* out, long long n, long long pixels) {
  using Pack = warpwise::Pack<T>;
  const long long thread = warpwise::global_thread();
  const long long threads = warpwise::global_threads();
  for (long long i = blockIdx.y; i < n; i += gridDim.y) {
    const T* red = image + 3 * i * pixels;
    const T* green = red + pixels;
    const T* blue = green + pixels;
    T* to = out + i * pixels;
    const long long packs = warpwise::aligned(red, green, blue, to) ? pixels / Pack::size : 0;
    for (long long p = thread; p < packs; p += threads) {
      const Pack r = warpwise::packs(red)[p];
      const Pack g = warpwise::packs(green)[p];
      const Pack b = warpwise::packs(blue)[p];
      Pack result;
#pragma unroll
      for (int k = 0; k < Pack::size; ++k) result.at[k] = gray(r.at[k], g.at[k], b.at[k]);
      warpwise::packs(to)[p] = result;
    }
    for (long long p = packs * Pack::size + thread; p < pixels; p += threads) to[p] = gray(red[p], green[p], blue[p]);
  }
}
