// Interleaved pixels, 48 bytes per thread in three 16-byte loads: 16 uint8 pixels at once, without a copy to planes.
#include "gray.cuh"

// image: (pixels, 3), out: (pixels), contiguous. Grid: ceil(pixels / (Pack::size * blockDim.x)).
template <typename T>
__global__ void rgb_to_grayscale(const T* image, T* out, long long pixels) {
  using Pack = warpwise::Pack<T>;
  const long long thread = warpwise::global_thread();
  const long long threads = warpwise::global_threads();
  const long long packs = warpwise::aligned(image, out) ? pixels / Pack::size : 0;
  for (long long p = thread; p < packs; p += threads) {
    const Pack in[3] = {warpwise::packs(image)[3 * p], warpwise::packs(image)[3 * p + 1],
                        warpwise::packs(image)[3 * p + 2]};
    Pack result;
#pragma unroll
    for (int k = 0; k < Pack::size; ++k) {
      // Element e of the 3 * size loaded is element e % size of pack e / size; the indices are compile-time
      // constants.
      const int r = 3 * k, g = 3 * k + 1, b = 3 * k + 2;
      result.at[k] = gray(in[r / Pack::size].at[r % Pack::size], in[g / Pack::size].at[g % Pack::size],
                          in[b / Pack::size].at[b % Pack::size]);
    }
    warpwise::packs(out)[p] = result;
  }
  for (long long p = packs * Pack::size + thread; p < pixels; p += threads) {
    out[p] = gray(image[3 * p], image[3 * p + 1], image[3 * p + 2]);
  }
}
