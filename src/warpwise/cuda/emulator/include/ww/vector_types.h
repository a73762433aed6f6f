// CUDA's vector types (float4, ...) with their alignments and make_* functions, and dim3. CUDA defines no operators.
#pragma once

#define WW_VECTORS(T, N, ALIGN2, ALIGN4)                                    \
  struct N##1 { T x; };                                                     \
  struct __attribute__((aligned(ALIGN2))) N##2 { T x, y; };                 \
  struct N##3 { T x, y, z; };                                               \
  struct __attribute__((aligned(ALIGN4))) N##4 { T x, y, z, w; };           \
  WW_INLINE constexpr N##1 make_##N##1(T x) { return {x}; }                 \
  WW_INLINE constexpr N##2 make_##N##2(T x, T y) { return {x, y}; }         \
  WW_INLINE constexpr N##3 make_##N##3(T x, T y, T z) { return {x, y, z}; } \
  WW_INLINE constexpr N##4 make_##N##4(T x, T y, T z, T w) { return {x, y, z, w}; }

WW_VECTORS(signed char, char, 2, 4)
WW_VECTORS(unsigned char, uchar, 2, 4)
WW_VECTORS(short, short, 4, 8)
WW_VECTORS(unsigned short, ushort, 4, 8)
WW_VECTORS(int, int, 8, 16)
WW_VECTORS(unsigned int, uint, 8, 16)
WW_VECTORS(long, long, 16, 16)
WW_VECTORS(unsigned long, ulong, 16, 16)
WW_VECTORS(long long, longlong, 16, 16)
WW_VECTORS(unsigned long long, ulonglong, 16, 16)
WW_VECTORS(float, float, 8, 16)
WW_VECTORS(double, double, 16, 16)
#undef WW_VECTORS

// CUDA 13: vectors of four numbers of 8 bytes with an alignment of 16 and of 32 bytes.
#define WW_ALIGNED_VECTORS(T, N)                                                            \
  struct __attribute__((aligned(16))) N##4_16a { T x, y, z, w; };                           \
  struct __attribute__((aligned(32))) N##4_32a { T x, y, z, w; };                           \
  WW_INLINE constexpr N##4_16a make_##N##4_16a(T x, T y, T z, T w) { return {x, y, z, w}; } \
  WW_INLINE constexpr N##4_32a make_##N##4_32a(T x, T y, T z, T w) { return {x, y, z, w}; }
WW_ALIGNED_VECTORS(long, long)
WW_ALIGNED_VECTORS(unsigned long, ulong)
WW_ALIGNED_VECTORS(long long, longlong)
WW_ALIGNED_VECTORS(unsigned long long, ulonglong)
WW_ALIGNED_VECTORS(double, double)
#undef WW_ALIGNED_VECTORS

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};
