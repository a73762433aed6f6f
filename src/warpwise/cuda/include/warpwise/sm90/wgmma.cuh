// wgmma: asynchronous matrix multiply-accumulate of a warpgroup. sm_90a only.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace warpwise {
namespace sm90 {

// Shared-memory matrix descriptor for the 128-byte swizzle, whose unit is 8 rows x 128 bytes. `stride`: bytes from one
// unit to the next below it; `leading`: bytes to the next 128 bytes of a row, used for MN-major operands only. Both are
// multiples of 16.
__device__ inline unsigned long long matrix_descriptor(unsigned address, unsigned leading, unsigned stride) {
  return (address & 0x3ffff) >> 4 | leading >> 4 << 16 | static_cast<unsigned long long>(stride >> 4 | 1u << 30) << 32;
}

// Descriptors that differ in the address, the lower 14 bits, only: that of another part is one addition. `address` must
// be equal in all lanes; the shuffle lets the compiler keep the descriptor in uniform registers, where wgmma needs it.
struct OperandDescriptor {
  unsigned low, high;

  __device__ OperandDescriptor(unsigned address, unsigned leading, unsigned stride)
      : low(matrix_descriptor(__shfl_sync(0xffffffff, address, 0), leading, stride)),
        high(matrix_descriptor(0, 0, stride) >> 32) {}
  // At `bytes` and `further` from the first, multiples of 16.
  __device__ unsigned long long at(unsigned bytes, unsigned further = 0) const {
    return static_cast<unsigned long long>(high) << 32 | (low + (bytes >> 4) + further / 16);
  }
};

__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most `PENDING` committed groups are pending.
template <int PENDING>
__device__ inline void wgmma_wait_group() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// Prevents the compiler from moving reads of the accumulators above the preceding wgmma_wait_group.
template <int COUNT>
__device__ inline void warpgroup_fence_operand(float (&sums)[COUNT]) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

// Operand types of wgmma.
enum class Element { bf16, f16, e4m3, e5m2, e4m3_e5m2, e5m2_e4m3, s8, tf32 };
template <class A, class B>
struct Pair {  // fp8 types of A and of B
  A a;
};
template <Element ELEMENT, class S = float>
struct Multiplied {
  static constexpr Element value = ELEMENT;
  using Sum = S;
};
template <class T>
struct ElementOf;
template <class A>
struct ElementOf<Pair<A, A>> : ElementOf<A> {};
template <>
struct ElementOf<signed char> : Multiplied<Element::s8, int> {};
template <>
struct ElementOf<float> : Multiplied<Element::tf32> {};
template <>
struct ElementOf<__nv_bfloat16> : Multiplied<Element::bf16> {};
template <>
struct ElementOf<__half> : Multiplied<Element::f16> {};
#ifdef __CUDA_FP8_TYPES_EXIST__
template <>
struct ElementOf<__nv_fp8_e4m3> : Multiplied<Element::e4m3> {};
template <>
struct ElementOf<__nv_fp8_e5m2> : Multiplied<Element::e5m2> {};
template <>
struct ElementOf<Pair<__nv_fp8_e4m3, __nv_fp8_e5m2>> : Multiplied<Element::e4m3_e5m2> {};
template <>
struct ElementOf<Pair<__nv_fp8_e5m2, __nv_fp8_e4m3>> : Multiplied<Element::e5m2_e4m3> {};
#endif

// The registers of D: their names in PTX and their asm operands, by their number.
#define WW_NAMES_4 "%0, %1, %2, %3"
#define WW_NAMES_8 WW_NAMES_4 ", %4, %5, %6, %7"
#define WW_NAMES_16 WW_NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define WW_NAMES_24 WW_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define WW_NAMES_32 WW_NAMES_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define WW_NAMES_40 WW_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define WW_NAMES_48 WW_NAMES_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define WW_NAMES_56 WW_NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define WW_NAMES_60 WW_NAMES_56 ", %56, %57, %58, %59"
#define WW_NAMES_64 WW_NAMES_60 ", %60, %61, %62, %63"
#define WW_NAMES_80 WW_NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define WW_NAMES_96 WW_NAMES_80 ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define WW_NAMES_104 WW_NAMES_96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define WW_NAMES_112 WW_NAMES_104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define WW_NAMES_120 WW_NAMES_112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define WW_NAMES_124 WW_NAMES_120 ", %120, %121, %122, %123"
#define WW_NAMES_128 WW_NAMES_124 ", %124, %125, %126, %127"
#define WW_SUMS4(c, i) c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3])
#define WW_SUMS16(c, i) WW_SUMS4(c, i), WW_SUMS4(c, i + 4), WW_SUMS4(c, i + 8), WW_SUMS4(c, i + 12)
#define WW_SUMS_4(c) WW_SUMS4(c, 0)
#define WW_SUMS_8(c) WW_SUMS4(c, 0), WW_SUMS4(c, 4)
#define WW_SUMS_16(c) WW_SUMS16(c, 0)
#define WW_SUMS_24(c) WW_SUMS_16(c), WW_SUMS4(c, 16), WW_SUMS4(c, 20)
#define WW_SUMS_32(c) WW_SUMS_16(c), WW_SUMS16(c, 16)
#define WW_SUMS_40(c) WW_SUMS_32(c), WW_SUMS4(c, 32), WW_SUMS4(c, 36)
#define WW_SUMS_48(c) WW_SUMS_32(c), WW_SUMS16(c, 32)
#define WW_SUMS_56(c) WW_SUMS_48(c), WW_SUMS4(c, 48), WW_SUMS4(c, 52)
#define WW_SUMS_60(c) WW_SUMS_56(c), WW_SUMS4(c, 56)
#define WW_SUMS_64(c) WW_SUMS_48(c), WW_SUMS16(c, 48)
#define WW_SUMS_80(c) WW_SUMS_64(c), WW_SUMS16(c, 64)
#define WW_SUMS_96(c) WW_SUMS_80(c), WW_SUMS16(c, 80)
#define WW_SUMS_104(c) WW_SUMS_96(c), WW_SUMS4(c, 96), WW_SUMS4(c, 100)
#define WW_SUMS_112(c) WW_SUMS_96(c), WW_SUMS16(c, 96)
#define WW_SUMS_120(c) WW_SUMS_112(c), WW_SUMS4(c, 112), WW_SUMS4(c, 116)
#define WW_SUMS_124(c) WW_SUMS_120(c), WW_SUMS4(c, 120)
#define WW_SUMS_128(c) WW_SUMS_112(c), WW_SUMS16(c, 112)

#define WW_MMA(KIND, TYPES, CONSTRAINT, SWITCHES, N, COUNT, B, ADDS, TRANS_A, TRANS_B)                               \
  if constexpr (kind == Element::KIND)                                                                               \
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %" #ADDS ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N TYPES \
                 " {" WW_NAMES_##COUNT "}, %" #COUNT ", %" #B ", adds" SWITCHES ";\n}"                               \
                 : WW_SUMS_##COUNT(CONSTRAINT)                                                                       \
                 : "l"(a), "l"(b), "r"(static_cast<int>(adds)), "n"(static_cast<int>(A_MN_MAJOR)),                   \
                   "n"(static_cast<int>(B_MN_MAJOR)));

// One instruction of N columns: operand numbers of D's COUNT registers, a, b, adds and the two transpose flags.
#define WW_WIDTH(N, COUNT, B, ADDS, TRANS_A, TRANS_B)                                                                 \
  if constexpr (WIDTH == N) {                                                                                         \
    WW_MMA(bf16, "k16.f32.bf16.bf16", "+f", ", 1, 1, %" #TRANS_A ", %" #TRANS_B, N, COUNT, B, ADDS, TRANS_A, TRANS_B) \
    WW_MMA(f16, "k16.f32.f16.f16", "+f", ", 1, 1, %" #TRANS_A ", %" #TRANS_B, N, COUNT, B, ADDS, TRANS_A, TRANS_B)    \
    WW_MMA(e4m3, "k32.f32.e4m3.e4m3", "+f", ", 1, 1", N, COUNT, B, ADDS, TRANS_A, TRANS_B)                            \
    WW_MMA(e5m2, "k32.f32.e5m2.e5m2", "+f", ", 1, 1", N, COUNT, B, ADDS, TRANS_A, TRANS_B)                            \
    WW_MMA(e4m3_e5m2, "k32.f32.e4m3.e5m2", "+f", ", 1, 1", N, COUNT, B, ADDS, TRANS_A, TRANS_B)                       \
    WW_MMA(e5m2_e4m3, "k32.f32.e5m2.e4m3", "+f", ", 1, 1", N, COUNT, B, ADDS, TRANS_A, TRANS_B)                       \
    WW_MMA(s8, "k32.s32.s8.s8", "+r", "", N, COUNT, B, ADDS, TRANS_A, TRANS_B)                                        \
    WW_MMA(tf32, "k8.f32.tf32.tf32", "+f", ", 1, 1", N, COUNT, B, ADDS, TRANS_A, TRANS_B)                             \
  } else

// D = A B, or D += A B if `adds`. A (64, K) and B (K, WIDTH) are in shared memory, given by descriptors; K is 32 bytes
// of elements. An operand is K-major (K along its rows of 128 bytes) or MN-major (M or N along the rows; 2-byte
// elements only): a row-major A is K-major, a row-major B is MN-major. The next K step is 32 bytes further for K-major
// operands, 16 rows further for MN-major ones. tf32 uses the upper 19 bits of each float. Lane l of warp w holds row 16
// w + l / 4 + 8 half, column 8 j + 2 (l % 4) + c of D in d[4 j + 2 half + c]; d may be longer.
template <class T, int WIDTH, bool A_MN_MAJOR = false, bool B_MN_MAJOR = false, int COUNT>
__device__ inline void wgmma(typename ElementOf<T>::Sum (&d)[COUNT], unsigned long long a, unsigned long long b,
                             bool adds) {
  constexpr Element kind = ElementOf<T>::value;
  static_assert(COUNT >= WIDTH / 2, "d holds the WIDTH / 2 sums of a thread");
  static_assert(sizeof(T) == 2 || !(A_MN_MAJOR || B_MN_MAJOR), "only 2-byte elements may be MN-major");
  WW_WIDTH(8, 4, 5, 6, 7, 8)
  WW_WIDTH(16, 8, 9, 10, 11, 12)
  WW_WIDTH(32, 16, 17, 18, 19, 20)
  WW_WIDTH(48, 24, 25, 26, 27, 28)
  WW_WIDTH(64, 32, 33, 34, 35, 36)
  WW_WIDTH(80, 40, 41, 42, 43, 44)
  WW_WIDTH(96, 48, 49, 50, 51, 52)
  WW_WIDTH(112, 56, 57, 58, 59, 60)
  WW_WIDTH(120, 60, 61, 62, 63, 64)
  WW_WIDTH(128, 64, 65, 66, 67, 68)
  WW_WIDTH(160, 80, 81, 82, 83, 84)
  WW_WIDTH(192, 96, 97, 98, 99, 100)
  WW_WIDTH(208, 104, 105, 106, 107, 108)
  WW_WIDTH(224, 112, 113, 114, 115, 116)
  WW_WIDTH(240, 120, 121, 122, 123, 124)
  WW_WIDTH(248, 124, 125, 126, 127, 128)
  WW_WIDTH(256, 128, 129, 130, 131, 132)
  static_assert(WIDTH < 0, "one of the widths above");
}

#define WW_WGMMA_RS(N, COUNT, A0, A1, A2, A3, B, ADDS)                                                         \
  if constexpr (WIDTH == N)                                                                                    \
    asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %" #ADDS ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N \
                 "k8.f32.tf32.tf32 {" WW_NAMES_##COUNT "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B     \
                                                       ", adds, 1, 1;\n}"                                      \
                 : WW_SUMS_##COUNT("+f")                                                                       \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)));           \
  else

// The same for TF32 with A (64, 8) in registers; B (8, WIDTH) is K-major. Lane l holds rows l / 4 and l / 4 + 8 of the
// warp's 16 rows: a[0] and a[1] at k = l % 4, a[2] and a[3] at k = l % 4 + 4.
template <int WIDTH>
__device__ inline void wgmma_rs(float (&d)[WIDTH / 2], const unsigned (&a)[4], unsigned long long b, bool adds) {
  WW_WGMMA_RS(8, 4, 4, 5, 6, 7, 8, 9)
  WW_WGMMA_RS(16, 8, 8, 9, 10, 11, 12, 13)
  WW_WGMMA_RS(32, 16, 16, 17, 18, 19, 20, 21)
  WW_WGMMA_RS(64, 32, 32, 33, 34, 35, 36, 37)
  WW_WGMMA_RS(128, 64, 64, 65, 66, 67, 68, 69)
  WW_WGMMA_RS(192, 96, 96, 97, 98, 99, 100, 101)
  WW_WGMMA_RS(256, 128, 128, 129, 130, 131, 132, 133)
  static_assert(WIDTH < 0, "one of the widths above");
}

}  // namespace sm90
}  // namespace warpwise
