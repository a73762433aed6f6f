// c10::Half and c10::BFloat16: types of their own, for which a source may overload functions. They are CUDA's types,
// whose operators and conversions they have, with PyTorch's arithmetic: in float, rounded to the type.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define WW_BOTH __host__ __device__ __forceinline__

namespace warpwise {
// A member without a size, at the address of the number: its bits.
struct NumberBits {
  WW_BOTH operator unsigned short() const { return *reinterpret_cast<const unsigned short*>(this); }
  WW_BOTH NumberBits& operator=(unsigned short bits) {
    *reinterpret_cast<unsigned short*>(this) = bits;
    return *this;
  }
  WW_BOTH NumberBits& operator=(const NumberBits& other) { return *this = (unsigned short)other; }
};

// CUDA's type of the number. The templates below are for arithmetic types U and V only.
template <class Number>
struct CudaNumber {};
template <class U, class V>
struct Arithmetic {};
#define WW_ARITHMETIC(type, result)      \
  template <class Number>                \
  struct Arithmetic<Number, type> {      \
    using Result = result;               \
  };
WW_ARITHMETIC(float, float)
WW_ARITHMETIC(double, double)
WW_ARITHMETIC(int, Number)
WW_ARITHMETIC(unsigned, Number)
WW_ARITHMETIC(long, Number)
WW_ARITHMETIC(unsigned long, Number)
WW_ARITHMETIC(long long, Number)
WW_ARITHMETIC(unsigned long long, Number)
#undef WW_ARITHMETIC
}  // namespace warpwise
