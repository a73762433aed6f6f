// One memory access for each lane, with a given instruction.
//
// Lane l accesses byte offsets[l] from a base if bit l of active is set. The access is predicated, without a branch.
#pragma once

__constant__ unsigned offsets[32];
__constant__ unsigned active;

__device__ unsigned lane() { return threadIdx.x & 31; }
__device__ unsigned on() { return active >> lane() & 1; }

template <class T>
__device__ unsigned in_shared(T* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

#define WIDTHS(NAME, INSTRUCTION, CONSTRAINT, ADDRESS)                                                         \
  template <int BYTES>                                                                                         \
  __device__ unsigned NAME(ADDRESS address, unsigned on) {                                                     \
    unsigned a = 0, b = 0, c = 0, d = 0;                                                                       \
    if constexpr (BYTES == 1)                                                                                  \
      asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p " INSTRUCTION ".u8 %0, [%1]; }"                   \
                   : "+r"(a)                                                                                   \
                   : CONSTRAINT(address), "r"(on)                                                              \
                   : "memory");                                                                                \
    if constexpr (BYTES == 2)                                                                                  \
      asm volatile("{ .reg .pred p; .reg .u16 h; mov.u16 h, 0; setp.ne.u32 p, %2, 0; @p " INSTRUCTION          \
                   ".u16 h, [%1]; cvt.u32.u16 %0, h; }"                                                        \
                   : "+r"(a)                                                                                   \
                   : CONSTRAINT(address), "r"(on)                                                              \
                   : "memory");                                                                                \
    if constexpr (BYTES == 4)                                                                                  \
      asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p " INSTRUCTION ".u32 %0, [%1]; }"                  \
                   : "+r"(a)                                                                                   \
                   : CONSTRAINT(address), "r"(on)                                                              \
                   : "memory");                                                                                \
    if constexpr (BYTES == 8)                                                                                  \
      asm volatile("{ .reg .pred p; setp.ne.u32 p, %3, 0; @p " INSTRUCTION ".v2.u32 {%0, %1}, [%2]; }"         \
                   : "+r"(a), "+r"(b)                                                                          \
                   : CONSTRAINT(address), "r"(on)                                                              \
                   : "memory");                                                                                \
    if constexpr (BYTES == 16)                                                                                 \
      asm volatile("{ .reg .pred p; setp.ne.u32 p, %5, 0; @p " INSTRUCTION ".v4.u32 {%0, %1, %2, %3}, [%4]; }" \
                   : "+r"(a), "+r"(b), "+r"(c), "+r"(d)                                                        \
                   : CONSTRAINT(address), "r"(on)                                                              \
                   : "memory");                                                                                \
    return a ^ b ^ c ^ d;                                                                                      \
  }

WIDTHS(load_shared, "ld.shared", "r", unsigned)
WIDTHS(load_global, "ld.global", "l", const void*)
WIDTHS(load_read_only, "ld.global.nc", "l", const void*)
WIDTHS(load_cached_in_l2, "ld.global.cg", "l", const void*)
WIDTHS(load_streaming, "ld.global.cs", "l", const void*)
WIDTHS(load_volatile, "ld.volatile.global", "l", const void*)
WIDTHS(load_generic, "ld", "l", const void*)
#undef WIDTHS

#define WIDTHS(NAME, INSTRUCTION, CONSTRAINT, ADDRESS)                                                               \
  template <int BYTES>                                                                                               \
  __device__ void NAME(ADDRESS address, unsigned on) {                                                               \
    unsigned a = lane() + 1;                                                                                         \
    if constexpr (BYTES == 1)                                                                                        \
      asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p " INSTRUCTION ".u8 [%0], %1; }" ::CONSTRAINT(address),  \
                   "r"(a), "r"(on)                                                                                   \
                   : "memory");                                                                                      \
    if constexpr (BYTES == 2)                                                                                        \
      asm volatile("{ .reg .pred p; .reg .u16 h; cvt.u16.u32 h, %1; setp.ne.u32 p, %2, 0; @p " INSTRUCTION           \
                   ".u16 [%0], h; }" ::CONSTRAINT(address),                                                          \
                   "r"(a), "r"(on)                                                                                   \
                   : "memory");                                                                                      \
    if constexpr (BYTES == 4)                                                                                        \
      asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p " INSTRUCTION ".u32 [%0], %1; }" ::CONSTRAINT(address), \
                   "r"(a), "r"(on)                                                                                   \
                   : "memory");                                                                                      \
    if constexpr (BYTES == 8)                                                                                        \
      asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p " INSTRUCTION                                           \
                   ".v2.u32 [%0], {%1, %1}; }" ::CONSTRAINT(address),                                                \
                   "r"(a), "r"(on)                                                                                   \
                   : "memory");                                                                                      \
    if constexpr (BYTES == 16)                                                                                       \
      asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p " INSTRUCTION                                           \
                   ".v4.u32 [%0], {%1, %1, %1, %1}; }" ::CONSTRAINT(address),                                        \
                   "r"(a), "r"(on)                                                                                   \
                   : "memory");                                                                                      \
  }

WIDTHS(store_shared, "st.shared", "r", unsigned)
WIDTHS(store_global, "st.global", "l", void*)
#undef WIDTHS
