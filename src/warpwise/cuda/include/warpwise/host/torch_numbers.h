// c10::Half and c10::BFloat16 with the layout of CUDA's types. As in PyTorch they are distinct types, so a source may
// overload functions for them; they convert to CUDA's types and back, and their operators compute in float.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define WW_BOTH __host__ __device__ __forceinline__

namespace c10 {
struct alignas(2) Half {
  struct from_bits_t {};
  static constexpr WW_BOTH from_bits_t from_bits() { return {}; }
  unsigned short x;
  Half() = default;
  constexpr WW_BOTH Half(unsigned short bits, from_bits_t) : x(bits) {}
  WW_BOTH Half(float value) : Half(__float2half(value)) {}
  WW_BOTH Half(const __half& value) : x(__half_as_ushort(value)) {}
  WW_BOTH operator __half() const { return __ushort_as_half(x); }
  WW_BOTH operator float() const { return __half2float(__ushort_as_half(x)); }
};

struct alignas(2) BFloat16 {
  struct from_bits_t {};
  static constexpr WW_BOTH from_bits_t from_bits() { return {}; }
  unsigned short x;
  BFloat16() = default;
  constexpr WW_BOTH BFloat16(unsigned short bits, from_bits_t) : x(bits) {}
  WW_BOTH BFloat16(float value) : BFloat16(__float2bfloat16(value)) {}
  WW_BOTH BFloat16(const __nv_bfloat16& value) : x(__bfloat16_as_ushort(value)) {}
  WW_BOTH operator __nv_bfloat16() const { return __ushort_as_bfloat16(x); }
  WW_BOTH operator float() const { return __bfloat162float(__ushort_as_bfloat16(x)); }
};

// The result of an operation of `Number` and an arithmetic type: float or double for these, else `Number`.
template <class Number, class Other>
struct Operation {};
#define WW_OPERATION(Other, Type)   \
  template <class Number>           \
  struct Operation<Number, Other> { \
    using Result = Type;            \
  };
WW_OPERATION(float, float)
WW_OPERATION(double, double)
WW_OPERATION(bool, Number)
WW_OPERATION(int, Number)
WW_OPERATION(unsigned, Number)
WW_OPERATION(long, Number)
WW_OPERATION(unsigned long, Number)
WW_OPERATION(long long, Number)
WW_OPERATION(unsigned long long, Number)
#undef WW_OPERATION

#define WW_OPERATOR(Number, op)                                                      \
  WW_BOTH Number operator op(Number a, Number b) { return (float)a op(float) b; }    \
  WW_BOTH Number& operator op## = (Number & a, Number b) { return a = a op b; }      \
  template <class Other>                                                             \
  WW_BOTH typename Operation<Number, Other>::Result operator op(Number a, Other b) { \
    return (float)a op(typename Operation<float, Other>::Result) b;                  \
  }                                                                                  \
  template <class Other>                                                             \
  WW_BOTH typename Operation<Number, Other>::Result operator op(Other a, Number b) { \
    return (typename Operation<float, Other>::Result)a op(float) b;                  \
  }
#define WW_COMPARISON(Number, op) \
  WW_BOTH bool operator op(Number a, Number b) { return (float)a op(float) b; }
#define WW_OPERATORS(Number) \
  WW_OPERATOR(Number, +)     \
  WW_OPERATOR(Number, -)     \
  WW_OPERATOR(Number, *)     \
  WW_OPERATOR(Number, /)     \
  WW_COMPARISON(Number, <)   \
  WW_COMPARISON(Number, >)   \
  WW_COMPARISON(Number, <=)  \
  WW_COMPARISON(Number, >=)  \
  WW_COMPARISON(Number, ==)  \
  WW_COMPARISON(Number, !=)  \
  WW_BOTH Number operator-(Number a) { return -(float)a; }
WW_OPERATORS(Half)
WW_OPERATORS(BFloat16)
#undef WW_OPERATORS
#undef WW_OPERATOR
#undef WW_COMPARISON
}  // namespace c10
#undef WW_BOTH

__device__ __forceinline__ c10::Half __ldg(const c10::Half* address) {
  return __ldg(reinterpret_cast<const __half*>(address));
}
__device__ __forceinline__ c10::BFloat16 __ldg(const c10::BFloat16* address) {
  return __ldg(reinterpret_cast<const __nv_bfloat16*>(address));
}
