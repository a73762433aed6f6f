// Ampere's tensor cores by PTX: asynchronous copies, matrices of shared memory into fragments, products of a warp.
//
// A fragment is what the 32 lanes of a warp hold of a matrix. Lane l has group g = l / 4 and place t = l % 4. One
// product takes 16 rows of A and 8 columns of B, both 32 bytes deep, and every register holds 4 bytes along that depth:
// places 0 to 3 cover its first or its second half. So 2-byte types, int8 and TF32 have the same geometry in bytes:
//   a[0], a[1]: rows g and g + 8 of the first half; a[2], a[3]: the same rows of the second; b[0], b[1]: column g.
//   d[0], d[1]: row g, columns 2 t and 2 t + 1; d[2], d[3]: row g + 8.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <warpwise/vector.cuh>

namespace warpwise {
namespace mma {

// What a factor's type is multiplied as. `Sum` is what its products are summed in. `kSpan`: how many neighbours, along
// rows of A or columns of B, one lane reads at once from a slice whose lines run along them; it gets one for each of
// kSpan groups of 8. 16-byte rows of 2-byte elements are transposed by the load itself (span 1); it moves pairs of
// bytes together (span 2); floats are read by quads (span 4).
template <class T>
struct Factor {
  using Sum = float;
  static constexpr int kSpan = 1;
};
template <>
struct Factor<signed char> {
  using Sum = int;
  static constexpr int kSpan = 2;
};
template <>
struct Factor<float> {  // of which TF32's 19 bits take part
  using Sum = float;
  static constexpr int kSpan = 4;
};

__device__ inline unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Four 8 x 8 matrices of 2-byte elements. Lane 8 i + j gives the address of row j of matrix i, 16 bytes; of matrix i,
// lane l gets row l / 4, elements 2 (l % 4) and the next.
__device__ inline void load_matrices(unsigned (&r)[4], unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}

// The same, transposed: lane l gets column l / 4, of rows 2 (l % 4) and the next.
__device__ inline void load_matrices_transposed(unsigned (&r)[4], unsigned row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}

// d += a b, of a warp: 16 x 8 sums.
__device__ inline void product(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, __nv_bfloat16) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline void product(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, __half) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The lower 13 bits of each float are not looked at.
__device__ inline void product(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, float) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline void product(int (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, signed char) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// An asynchronous copy of 16 or 4 bytes, or zeros in their place. (Where the compiler sees that all are read or none,
// one predicate says so; __pipeline_memcpy_async makes a switch over every number of bytes.)
template <int BYTES>
__device__ inline void copy_async(unsigned to, const void* from, bool there) {
  static_assert(BYTES == 16 || BYTES == 4, "units, or words where lines do not lie on units");
  const int read = there ? BYTES : 0;
  if constexpr (BYTES == 16)
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(read) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(read) : "memory");
}

// 16 bytes of a line from global to shared memory, of which `left` elements exist; zeros fill the rest. WORD: the bytes
// that one copy moves, of which all exist or none: 16 or 4, asynchronously, or one element's, at once.
template <int WORD, class T>
__device__ inline void copy16(unsigned char* to, const T* from, int left) {
  constexpr int kElements = 16 / sizeof(T);
  if constexpr (WORD >= 4) {
#pragma unroll
    for (int i = 0; i < kElements; i += WORD / sizeof(T))
      copy_async<WORD>(shared_address(to + i * sizeof(T)), from + i, i < left);
  } else {
    Vector<T, kElements> unit;
#pragma unroll
    for (int i = 0; i < kElements; ++i) unit.at[i] = i < left ? from[i] : T(0.0f);
    *reinterpret_cast<Vector<T, kElements>*>(to) = unit;
  }
}

}  // namespace mma
}  // namespace warpwise
