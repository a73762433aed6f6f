// Planes of any alignment: 4-byte loads, and a funnel shift where a plane starts between two words.
//
// In most images a plane of H * W pixels is not a multiple of 16 bytes, and k02 reads it element by element. Here a
// thread stores an aligned pack of the output, and reads the words of each plane that contain its pixels: one word more
// than the pack has, unless the plane is aligned like the output.
#include <warpwise/core/previous_kernel.cuh>

#include "gray.cuh"

// BYTES from any address that is a multiple of sizeof(T). Reads up to 3 bytes before and after them.
template <typename T, int BYTES>
struct ShiftedPack {
  const unsigned* words;
  unsigned shift;  // bits

  __device__ explicit ShiftedPack(const T* from) {
    const unsigned past = reinterpret_cast<unsigned long long>(from) % 4;
    words = reinterpret_cast<const unsigned*>(reinterpret_cast<const char*>(from) - past);
    shift = past * 8;
  }
  __device__ warpwise::Pack<T, BYTES> load() const {
    warpwise::Pack<unsigned, BYTES> shifted;
    unsigned low = words[0];
#pragma unroll
    for (int w = 0; w < shifted.size; ++w) {
      const unsigned high = w + 1 < shifted.size || shift ? words[w + 1] : 0;
      shifted.at[w] = __funnelshift_r(low, high, shift);
      low = high;
    }
    return *reinterpret_cast<const warpwise::Pack<T, BYTES>*>(&shifted);
  }
};

// image: (n, 3, pixels), out: (n, pixels), contiguous. BYTES of a pack: 16, or fewer for images so small that packs of
// 16 bytes occupy few SMs. Grid: y strides over images; x has at least pixels / Pack::size + 4 * Pack::size threads.
// The threads after the last pack of a plane compute the other pixels at the same time.
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
    // The first and the last whole pack are computed pixel by pixel, so that no word is outside of the image.
    const int offset = reinterpret_cast<unsigned long long>(to) % BYTES;
    const int before = (BYTES - offset) % BYTES / static_cast<int>(sizeof(T)) + Pack::size;
    const long long whole = (pixels - before) / Pack::size - 1, packs = whole > 0 ? whole : 0;
    if (p < packs) {
      const long long at = before + p * Pack::size;
      const ShiftedPack<T, BYTES> of_red(red + at), of_green(green + at), of_blue(blue + at);
      if (i == blockIdx.y) warpwise::wait_for_previous_kernel();  // after the addresses: they take as long as a load
      const Pack r = of_red.load(), g = of_green.load(), b = of_blue.load();
      Pack result;
#pragma unroll
      for (int k = 0; k < Pack::size; ++k) result.at[k] = gray(r.at[k], g.at[k], b.at[k]);
      *warpwise::packs<BYTES>(to + at) = result;
      continue;
    }
    if (i == blockIdx.y) warpwise::wait_for_previous_kernel();
#pragma unroll 1
    for (long long e = p - packs; e < pixels - packs * Pack::size; e += warpwise::global_threads() - packs) {
      const long long at = e < before ? e : e + packs * Pack::size;
      to[at] = gray(red[at], green[at], blue[at]);
    }
  }
}
