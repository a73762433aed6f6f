// Tensor cores of Ampere by PTX: cp.async and mma.sync.
//
// A fragment is the part of a matrix that the 32 lanes of a warp hold. Lane l has group g = l / 4 and index t = l % 4
// in it. One mma.sync takes 16 rows of A and 8 columns of B, both 32 bytes of K, and every register holds 4 bytes along
// K: indices 0 to 3 cover the first or the second half of K. In bytes the layout is the same for 2-byte types, int8 and
// TF32:
//   a[0], a[1]: rows g and g + 8 of the first half; a[2], a[3]: the same rows of the second; b[0], b[1]: column g.
//   d[0], d[1]: row g, columns 2 t and 2 t + 1; d[2], d[3]: row g + 8.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/core/vector.cuh>

namespace warpwise {
namespace mma {

// Properties of an operand's type. `Sum` is the accumulator type. `kSpan`: the number of adjacent rows of A or columns
// of B that one lane loads at once from an MN-major tile; they belong to kSpan groups of 8. ldmatrix.trans transposes
// 2-byte elements (span 1) and moves bytes in pairs (span 2); floats are loaded four at a time (span 4).
template <class T>
struct OperandTraits {
  using Sum = float;
  static constexpr int kSpan = 1;
};
template <>
struct OperandTraits<signed char> {
  using Sum = int;
  static constexpr int kSpan = 2;
};
template <>
struct OperandTraits<float> {  // mma.sync uses the upper 19 bits (TF32)
  using Sum = float;
  static constexpr int kSpan = 4;
};

// mma_sync(d, a, b0, b1, T()): d += a b, 16 x 8 sums of a warp. The lower 13 bits of floats are ignored.
#define WW_MMA_SYNC(T, SUM, CONSTRAINT, INSTRUCTION)                                                                \
  __device__ inline void mma_sync(SUM(&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, T) {                \
    asm volatile("mma.sync.aligned." INSTRUCTION " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : CONSTRAINT(d[0]), CONSTRAINT(d[1]), CONSTRAINT(d[2]), CONSTRAINT(d[3])                           \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                   \
  }
WW_MMA_SYNC(__nv_bfloat16, float, "+f", "m16n8k16.row.col.f32.bf16.bf16.f32")
WW_MMA_SYNC(__half, float, "+f", "m16n8k16.row.col.f32.f16.f16.f32")
WW_MMA_SYNC(float, float, "+f", "m16n8k8.row.col.f32.tf32.tf32.f32")
WW_MMA_SYNC(signed char, int, "+r", "m16n8k32.row.col.s32.s8.s8.s32")

// Rounds to nearest, ties away from zero: adds half a unit in the last place of TF32; mma.sync ignores the bits below.
// Infinities and NaN, whose bits might overflow, are unchanged. (cvt.rna.tf32 clears the lower bits too.)
template <int COUNT>
__device__ inline void round_to_tf32(unsigned (&registers)[COUNT][4]) {
#pragma unroll
  for (int i = 0; i < COUNT * 4; ++i) {
    unsigned& word = registers[i / 4][i % 4];
    if (fabsf(__uint_as_float(word)) < __uint_as_float(0x7f800000)) word += 0x1000;
  }
}

// cp.async of 16 or 4 bytes; writes zeros if not `valid`. (One predicate; __pipeline_memcpy_async compiles to a switch
// over every number of bytes.)
template <int BYTES>
__device__ inline void cp_async(unsigned to, const void* from, bool valid) {
  static_assert(BYTES == 16 || BYTES == 4, "16 bytes, or 4 where lines are not 16-byte aligned");
  const int read = valid ? BYTES : 0;
  if constexpr (BYTES == 16)
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(read) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(read) : "memory");
}

// Copies 16 bytes from global to shared memory by cp.async; only the first `valid` elements exist, the rest are zeros.
// WORD: bytes of one copy, 16 or 4, which exist entirely or not at all.
template <int WORD, class T>
__device__ inline void cp_async16(unsigned char* to, const T* from, int valid) {
#pragma unroll
  for (int i = 0; i < 16 / static_cast<int>(sizeof(T)); i += WORD / sizeof(T))
    cp_async<WORD>(shared_address(to + i * sizeof(T)), from + i, i < valid);
}

// The 16 bytes at `from`, loaded element by element; only the first `valid` elements exist, the rest are zeros.
template <class T>
__device__ inline Vector<T, 16 / sizeof(T)> load_unit(const T* from, int valid) {
  Vector<T, 16 / sizeof(T)> unit;
#pragma unroll
  for (int i = 0; i < 16 / static_cast<int>(sizeof(T)); ++i) unit.at[i] = i < valid ? from[i] : T(0.0f);
  return unit;
}

}  // namespace mma
}  // namespace warpwise
