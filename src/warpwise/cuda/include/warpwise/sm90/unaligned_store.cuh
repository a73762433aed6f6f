// Stores of C to dense rows that TMA cannot address because they are not 16-byte aligned.
#pragma once

#include <warpwise/core/shared_memory.cuh>

namespace warpwise {
namespace sm90 {

// C (m, n), row-major and dense; rows have the alignment of an element.
template <class T>
struct DenseRows {
  T* at;
  int m, n;
};

// Predicated stores: a branch would make the warp wait at every row.
__device__ inline void st_global_b32_if(bool is, unsigned long long to, unsigned word) {
  asm volatile("{\n.reg .pred is;\nsetp.ne.b32 is, %0, 0;\n@is st.global.b32 [%1], %2;\n}" ::"r"(static_cast<int>(is)),
               "l"(to), "r"(word)
               : "memory");
}
__device__ inline void st_global_b16_if(bool is, unsigned long long to, unsigned half) {
  asm volatile("{\n.reg .pred is;\nsetp.ne.b32 is, %0, 0;\n@is st.global.b16 [%1], %2;\n}" ::"r"(static_cast<int>(is)),
               "l"(to), "h"(static_cast<unsigned short>(half))
               : "memory");
}

// Word `lane` of row `row`, of rows of 128 bytes with the 128-byte swizzle.
__device__ inline unsigned swizzled_word(unsigned rows_at, int row, int lane) {
  return ld_shared(rows_at + row * 128 + ((lane / 4 ^ (row & 7)) << 4) + lane % 4 * 4);
}

// Stores 16 swizzled rows of 128 bytes at `rows_at` to C at (row, column), by one warp, row by row. 2-byte elements are
// stored as whole 4-byte words: if a row of C begins in the middle of a word, a word of C combines two adjacent words
// of shared memory, and the row's first and last elements are stored singly.
template <class T>
__device__ inline void store_rows(unsigned rows_at, const DenseRows<T>& c, int row, int column) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4, "a word holds two elements or one");
  constexpr int kRowsInFlight = 4, kPerWord = 4 / sizeof(T);
  const int lane = threadIdx.x % 32, rows = c.m - row, left = c.n - column - lane * kPerWord;
  T* to = c.at + static_cast<long long>(row) * c.n + column + lane * kPerWord;
  if (sizeof(T) == 2 && c.n - column >= 64) {
    const int end = lane ? 16 : 0;  // bit offset of the single element that lane 0 or 31 stores
#pragma unroll 1
    for (int i = 0; i < min(16, rows); i += kRowsInFlight) {
      unsigned words[kRowsInFlight], before[kRowsInFlight];
#pragma unroll
      for (int j = 0; j < kRowsInFlight; ++j) words[j] = swizzled_word(rows_at, i + j, lane);
#pragma unroll
      for (int j = 0; j < kRowsInFlight; ++j) before[j] = __shfl_up_sync(0xffffffffu, words[j], 1);
#pragma unroll
      for (int j = 0; j < kRowsInFlight; ++j, to += c.n) {
        const unsigned long long at = __cvta_generic_to_global(to);
        const unsigned between = static_cast<unsigned>(at) & 2;  // bytes past a word boundary
        const bool inside = i + j < rows;
        st_global_b32_if(inside && (lane > 0 || between == 0), at - between,
                         __funnelshift_r(between ? before[j] : words[j], words[j], between * 8));
        st_global_b16_if(inside && between && lane % 31 == 0, at + end / 8, words[j] >> end);
      }
    }
  } else {
#pragma unroll 1
    for (int i = 0; i < min(16, rows); ++i, to += c.n) {
      const unsigned word = swizzled_word(rows_at, i, lane);
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

}  // namespace sm90
}  // namespace warpwise
