// How many requests and sectors does an atomic operation in global memory cost?
#include "access.cuh"

#define REDUCTION(NAME, INSTRUCTION, TYPE, CONSTRAINT)                                                                 \
  __global__ void NAME(unsigned char* data) {                                                                          \
    TYPE value = static_cast<TYPE>(lane() + 1);                                                                        \
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p " INSTRUCTION " [%0], %1; }" ::"l"(data + offsets[lane()]), \
                 CONSTRAINT(value), "r"(on())                                                                          \
                 : "memory");                                                                                          \
  }

REDUCTION(global_reduction_u32, "red.global.add.u32", unsigned, "r")
REDUCTION(global_reduction_f32, "red.global.add.f32", float, "f")
REDUCTION(global_reduction_u64, "red.global.add.u64", unsigned long long, "l")
REDUCTION(global_reduction_f64, "red.global.add.f64", double, "d")
#undef REDUCTION

#define ATOMIC(NAME, INSTRUCTION, TYPE, RESULT, CONSTRAINT)                                 \
  __global__ void NAME(unsigned* out, unsigned char* data) {                                \
    TYPE value = static_cast<TYPE>(lane() + 1), old = 0;                                    \
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %3, 0; @p " INSTRUCTION " %0, [%1], %2; }" \
                 : RESULT(old)                                                              \
                 : "l"(data + offsets[lane()]), CONSTRAINT(value), "r"(on())                \
                 : "memory");                                                               \
    out[lane()] = static_cast<unsigned>(old);                                               \
  }

ATOMIC(global_atomic_u32, "atom.global.add.u32", unsigned, "+r", "r")
ATOMIC(global_atomic_f32, "atom.global.add.f32", float, "+f", "f")
ATOMIC(global_atomic_u64, "atom.global.add.u64", unsigned long long, "+l", "l")
ATOMIC(global_atomic_exchange, "atom.global.exch.b32", unsigned, "+r", "r")
#undef ATOMIC

// Plain atomicAdd: the compiler first sums the lanes of one address if it can prove that they share it.
__global__ void global_increment_one_address(unsigned* counter) {
  if (on()) atomicAdd(counter, 1u);
}

__global__ void global_add_float_one_address(float* sum) {
  if (on()) atomicAdd(sum, 1.5f);
}
