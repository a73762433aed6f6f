// Packs of each plane per thread: 16 uint8 pixels in 4 accesses instead of 64, and no division to find a pixel.
#include <warpwise/core/previous_kernel.cuh>

#include "gray.cuh"

// image: (n, 3, pixels), out: (n, pixels), contiguous. BYTES of a pack: 16, or fewer for images so small that packs of
// 16 bytes occupy few SMs. Grid: y strides over images; x has at least pixels / Pack::size + pixels % Pack::size
// threads. The threads after the last pack of a plane compute its last pixels at the same time.
template <typename T, int BYTES>
__global__ void rgb_to_grayscale(const T* image, T* out, long long n, long long pixels) {
  using Pack = warpwise::Pack<T, BYTES>;
  const long long p = warpwise::global_thread();
#pragma unroll 1
  for (long long i = blockIdx.y; i < n; i += gridDim.y) {
    const T* red = image + 3 * i * pixels;
    const T* green = red + pixels;
    const T* blue = green + pixels;
    T* to = out + i * pixels;
    const long long packs = warpwise::aligned<BYTES>(red, green, blue, to) ? pixels / Pack::size : 0;
    if (p < packs) {
      if (i == blockIdx.y) warpwise::wait_for_previous_kernel();
      const Pack r = warpwise::packs<BYTES>(red)[p];
      const Pack g = warpwise::packs<BYTES>(green)[p];
      const Pack b = warpwise::packs<BYTES>(blue)[p];
      Pack result;
#pragma unroll
      for (int k = 0; k < Pack::size; ++k) result.at[k] = gray(r.at[k], g.at[k], b.at[k]);
      warpwise::packs<BYTES>(to)[p] = result;
      continue;
    }
    if (i == blockIdx.y) warpwise::wait_for_previous_kernel();
#pragma unroll 1
    for (long long at = packs * Pack::size + p - packs; at < pixels; at += warpwise::global_threads() - packs) {
      to[at] = gray(red[at], green[at], blue[at]);
    }
  }
}
