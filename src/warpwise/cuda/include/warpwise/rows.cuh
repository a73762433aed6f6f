// What Hopper's products hand C to: a tensor map, or dense rows that the copy engine cannot address.
#pragma once

#include <warpwise/hopper.cuh>

namespace warpwise {
namespace hopper {

// C (m, n), dense, whose rows begin anywhere.
template <class T>
struct Rows {
  T* at;
  int m, n;
};

template <class C>
constexpr bool kMapped = false;
template <>
constexpr bool kMapped<TensorMap> = true;

// A word of shared memory.
__device__ inline unsigned load_word(unsigned address) {
  unsigned word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
  return word;
}

// Stores without a branch, which a warp would wait for at every row.
__device__ inline void store_word_if(bool is, unsigned long long to, unsigned word) {
  asm volatile("{\n.reg .pred is;\nsetp.ne.b32 is, %0, 0;\n@is st.global.b32 [%1], %2;\n}" ::"r"(static_cast<int>(is)),
               "l"(to), "r"(word)
               : "memory");
}
__device__ inline void store_half_if(bool is, unsigned long long to, unsigned half) {
  asm volatile("{\n.reg .pred is;\nsetp.ne.b32 is, %0, 0;\n@is st.global.b16 [%1], %2;\n}" ::"r"(static_cast<int>(is)),
               "l"(to), "h"(static_cast<unsigned short>(half))
               : "memory");
}

// The word of `lane` in row `row` of swizzled rows of 128 bytes.
__device__ inline unsigned word_of_row(unsigned rows_at, int row, int lane) {
  return load_word(rows_at + row * 128 + ((lane / 4 ^ (row & 7)) << 4) + lane % 4 * 4);
}

// 16 rows of 128 bytes at `rows_at`, swizzled, to C from (row, column) on, by the warp that wrote them, a row at a
// time. Of 2-byte elements whole words of global memory are written: where a row begins between two words, the elements
// of one stand in neighbouring words of shared memory, and the row's first and last go alone.
template <class T>
__device__ inline void write_rows(unsigned rows_at, const Rows<T>& c, int row, int column) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "a word holds two elements or one");
  constexpr int kAtOnce = 4, kInWord = 4 / sizeof(T);
  const int lane = threadIdx.x % 32, rows = c.m - row, left = c.n - column - lane * kInWord;
  T* to = c.at + static_cast<long long>(row) * c.n + column + lane * kInWord;
  if (sizeof(T) == 2 && c.n - column >= 64) {
    const int end = lane ? 16 : 0;  // bits of the word below its end of the row, of lanes 0 and 31
#pragma unroll 1
    for (int i = 0; i < min(16, rows); i += kAtOnce) {
      unsigned words[kAtOnce], before[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) words[j] = word_of_row(rows_at, i + j, lane);
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) before[j] = __shfl_up_sync(0xffffffffu, words[j], 1);
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j, to += c.n) {
        const unsigned long long at = __cvta_generic_to_global(to);
        const unsigned between = static_cast<unsigned>(at) & 2;  // bytes past a word
        const bool inside = i + j < rows;
        store_word_if(inside && (lane > 0 || between == 0), at - between,
                      __funnelshift_r(between ? before[j] : words[j], words[j], between * 8));
        store_half_if(inside && between && lane % 31 == 0, at + end / 8, words[j] >> end);
      }
    }
  } else {
#pragma unroll 1
    for (int i = 0; i < min(16, rows); ++i, to += c.n) {
      const unsigned word = word_of_row(rows_at, i, lane);
      if (sizeof(T) == 4) {
        if (left > 0) *reinterpret_cast<unsigned*>(to) = word;
      } else {
        unsigned short* const halves = reinterpret_cast<unsigned short*>(to);
        if (left > 0) halves[0] = static_cast<unsigned short>(word);
        if (left > 1) halves[1] = static_cast<unsigned short>(word >> 16);
      }
    }
  }
}

}  // namespace hopper
}  // namespace warpwise
