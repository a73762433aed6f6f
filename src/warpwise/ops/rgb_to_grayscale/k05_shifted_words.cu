// Planes of any alignment: 4-byte loads, and a funnel shift where a plane starts between two words.
//
// A plane of H * W pixels is a multiple of 16 bytes in few images, and k02 then reads element by element. Here a thread
// stores 16 aligned bytes of the output, and reads the four or five words of each plane that contain its pixels.
#include "gray.cuh"

// 16 bytes from any address that is a multiple of sizeof(T). Reads up to 3 bytes before and after them.
template <typename T>
__device__ warpwise::Pack<T> shifted_pack(const T* from) {
  const unsigned long long address = reinterpret_cast<unsigned long long>(from);
  const unsigned* const words = reinterpret_cast<const unsigned*>(address - address % 4);
  const unsigned shift = address % 4 * 8;
  warpwise::Pack<unsigned> shifted;
  unsigned low = words[0];
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    const unsigned high = w < 3 || shift ? words[w + 1] : 0;
    shifted.at[w] = __funnelshift_r(low, high, shift);
    low = high;
  }
  return *reinterpret_cast<const warpwise::Pack<T>*>(&shifted);
}

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
    // The first and the last whole pack are computed pixel by pixel, so that no word is outside of the image.
    const long long before = (16 - reinterpret_cast<unsigned long long>(to) % 16) % 16 / sizeof(T) + Pack::size;
    const long long whole = (pixels - before) / Pack::size - 1, packs = whole > 0 ? whole : 0;
    for (long long p = thread; p < packs; p += threads) {
      const long long at = before + p * Pack::size;
      const Pack r = shifted_pack(red + at), g = shifted_pack(green + at), b = shifted_pack(blue + at);
      Pack result;
#pragma unroll
      for (int k = 0; k < Pack::size; ++k) result.at[k] = gray(r.at[k], g.at[k], b.at[k]);
      *warpwise::packs(to + at) = result;
    }
    for (long long p = thread; p < pixels - packs * Pack::size; p += threads) {
      const long long at = p < before ? p : p + packs * Pack::size;
      to[at] = gray(red[at], green[at], blue[at]);
    }
  }
}
