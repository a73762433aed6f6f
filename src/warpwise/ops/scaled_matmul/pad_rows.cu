// Rows of bytes, one after another, to rows that begin on 16 bytes, as the copy engine asks, zeros behind each; and the
// way back for results.

#include <cuda_bf16.h>

// Bytes 16 u to 16 u + 15 of memory that ends after `bytes`, zeros past the end; `from` lies on 16.
__device__ inline uint4 unit_at(const unsigned char* from, long long u, long long bytes) {
  if ((u + 1) * 16 <= bytes) return reinterpret_cast<const uint4*>(from)[u];
  unsigned words[4] = {};
  for (int i = 0; u * 16 + i < bytes; ++i) words[i / 4] |= static_cast<unsigned>(from[u * 16 + i]) << (i % 4 * 8);
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// The 16 bytes from byte `at` on, by the two aligned units that hold them.
__device__ inline uint4 bytes_at(const unsigned char* from, long long at, long long bytes) {
  const uint4 low = unit_at(from, at / 16, bytes);
  const int skip = static_cast<int>(at % 16), shift = skip % 4 * 8;
  if (skip == 0) return low;
  const uint4 high = unit_at(from, at / 16 + 1, bytes);
  unsigned w[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
  for (int step = 2; step > 0; step /= 2) {  // by two words and by one
#pragma unroll
    for (int i = 0; i < 8 - step; ++i) w[i] = skip / 4 & step ? w[i + step] : w[i];
  }
  return make_uint4(__funnelshift_r(w[0], w[1], shift), __funnelshift_r(w[1], w[2], shift),
                    __funnelshift_r(w[2], w[3], shift), __funnelshift_r(w[3], w[4], shift));
}

// What the first `count` bytes of a word are, and zeros.
__device__ inline unsigned first_bytes(unsigned word, int count) {
  return count >= 4 ? word : count <= 0 ? 0 : word & ((1u << (8 * count)) - 1);
}

// a: (m, k), b: (n, k) bytes; to_a: (m, pitch), to_b: (n, pitch), pitch = k rounded up to 16; all on 16.
// Block: (x, y), y rows of the m + n. Grid: cdiv(m + n, y).
__global__ void pad_rows(const unsigned char* a, const unsigned char* b, unsigned char* to_a, unsigned char* to_b,
                         int m, int n, int k, int pitch) {
  const long long both = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (both >= static_cast<long long>(m) + n) return;
  const bool of_a = both < m;
  const unsigned char* const from = of_a ? a : b;
  const long long row = of_a ? both : both - m, bytes = static_cast<long long>(of_a ? m : n) * k;
  uint4* const to = reinterpret_cast<uint4*>((of_a ? to_a : to_b) + row * pitch);
  for (int u = threadIdx.x; u < pitch / 16; u += blockDim.x) {
    const int left = k - u * 16;  // bytes of the row from here on
    uint4 unit = bytes_at(from, row * k + u * 16, bytes);
    if (left < 16)
      unit = make_uint4(first_bytes(unit.x, left), first_bytes(unit.y, left - 4), first_bytes(unit.z, left - 8),
                        first_bytes(unit.w, left - 12));
    to[u] = unit;
  }
}

// to: (rows, to_pitch), from: (rows, pitch): the first `columns` of each row. A block of one dimension for each row.
template <class T>
__global__ void copy_rows(const T* from, T* to, int rows, int columns, int pitch, int to_pitch) {
  const long long row = blockIdx.x;
#pragma unroll 8
  for (int i = threadIdx.x; i < columns; i += blockDim.x) to[row * to_pitch + i] = from[row * pitch + i];
}
