// Copies matrices to rows of padded pitch, from which TMA can load boxes.
//
// A line may begin at any element: a thread combines two aligned loads of 16 bytes, and stores 16 aligned bytes of the
// copied line.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int kLines = 4;  // lines per block, whose loads are in flight together

// Loads 16 bytes from the 16-byte aligned address `at`; bytes outside [begin, end) are zero.
template <class T>
__device__ inline uint4 unit(const uint4* at, const T* begin, const T* end) {
  constexpr int kCount = 16 / sizeof(T);
  const T* const elements = reinterpret_cast<const T*>(at);
  if (elements >= begin && elements + kCount <= end) return *at;
  alignas(16) T elements_read[kCount] = {};
  for (int i = 0; i < kCount; ++i)
    if (elements + i >= begin && elements + i < end) elements_read[i] = elements[i];
  return *reinterpret_cast<const uint4*>(elements_read);
}

// The 16 bytes from byte `shift` on of the 32 bytes low, high.
__device__ inline uint4 shifted(uint4 low, uint4 high, unsigned shift) {
  const unsigned w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
  unsigned two[6], one[5];  // shifted by two words, then by one; a byte shift remains
#pragma unroll
  for (int i = 0; i < 6; ++i) two[i] = shift & 8 ? w[i + 2] : w[i];
#pragma unroll
  for (int i = 0; i < 5; ++i) one[i] = shift & 4 ? two[i + 1] : two[i];
  const unsigned bits = shift % 4 * 8;
  return {__funnelshift_r(one[0], one[1], bits), __funnelshift_r(one[1], one[2], bits),
          __funnelshift_r(one[2], one[3], bits), __funnelshift_r(one[3], one[4], bits)};
}

// Copies kLines lines from line `first` on, `pitch` elements apart, to lines of `units` units of 16 bytes. The
// elements of `to` past `length` are unspecified.
template <class T>
__device__ inline void pad(const T* from, long long pitch, int lines, int length, T* to, int units, int first) {
  const T* const end = from + (lines - 1) * pitch + length;
  for (int u = threadIdx.x; u < units; u += blockDim.x) {
    uint4 low[kLines], high[kLines];
    int shift[kLines];  // bytes
#pragma unroll
    for (int i = 0; i < kLines; ++i) {
      const int offset = u * static_cast<int>(16 / sizeof(T));
      const T* const start = from + min(first + i, lines - 1) * pitch + offset;
      shift[i] = static_cast<int>(reinterpret_cast<unsigned long long>(start) % 16);
      const uint4* const at = reinterpret_cast<const uint4*>(reinterpret_cast<const char*>(start) - shift[i]);
      const long long left = static_cast<long long>(length - offset) * sizeof(T);
      low[i] = left > 0 ? unit(at, from, end) : uint4{};
      high[i] = left + shift[i] > 16 && shift[i] > 0 ? unit(at + 1, from, end) : uint4{};
    }
#pragma unroll
    for (int i = 0; i < kLines; ++i)
      if (first + i < lines)
        reinterpret_cast<uint4*>(to)[static_cast<long long>(first + i) * units + u] =
            shifted(low[i], high[i], shift[i]);
  }
}

// Copies a, lines_a lines of length_a elements that are pitch_a apart, to to_a with lines of units_a * 16 bytes; b
// likewise. A block copies kLines lines: the first blocks_a blocks those of a, the others those of b. Block: 256
// threads.
template <class T>
__global__ void __launch_bounds__(256) pad_lines(const T* a, long long pitch_a, int lines_a, int length_a, T* to_a,
                                                 int units_a, const T* b, long long pitch_b, int lines_b, int length_b,
                                                 T* to_b, int units_b, int blocks_a) {
  const int block = static_cast<int>(blockIdx.x);
  if (block < blocks_a)
    pad(a, pitch_a, lines_a, length_a, to_a, units_a, block * kLines);
  else
    pad(b, pitch_b, lines_b, length_b, to_b, units_b, (block - blocks_a) * kLines);
}
