// cuda_fp16.h for host code: the types, which kernels take as arguments, and conversions. Arithmetic is device code.
#pragma once
#include <cuda_runtime.h>

struct alignas(2) __half {
  unsigned short bits;
  __half() = default;
  __half(float value) { *this = from(value); }
  operator float() const {
    _Float16 value;
    memcpy(&value, &bits, sizeof value);
    return static_cast<float>(value);
  }

 private:
  static __half from(float value) {
    const _Float16 rounded = static_cast<_Float16>(value);
    __half made;
    memcpy(&made.bits, &rounded, sizeof rounded);
    return made;
  }
};
struct alignas(4) __half2 {
  __half x, y;
};
typedef __half half;
typedef __half2 half2;
typedef __half nv_half;
typedef __half2 nv_half2;

inline __half __float2half(float value) { return __half(value); }
inline __half __float2half_rn(float value) { return __half(value); }
inline float __half2float(__half value) { return value; }
inline __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
inline __half2 __half2half2(__half value) { return {value, value}; }
inline __half2 make_half2(__half x, __half y) { return {x, y}; }
