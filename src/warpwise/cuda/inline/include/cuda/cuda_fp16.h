// cuda_fp16.h for host code: the types, which kernels take as arguments, conversions and arithmetic.
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
typedef __half __nv_half;
typedef __half2 nv_half2;

inline __half __float2half(float value) { return __half(value); }
inline __half __float2half_rn(float value) { return __half(value); }
inline float __half2float(__half value) { return value; }
inline __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
inline __half2 __half2half2(__half value) { return {value, value}; }
inline __half2 make_half2(__half x, __half y) { return {x, y}; }
inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
inline __half2 __float2half2_rn(float value) { return {__half(value), __half(value)}; }
inline __half2 __float22half2_rn(float2 value) { return {__half(value.x), __half(value.y)}; }
inline float2 __half22float2(__half2 value) { return make_float2(value.x, value.y); }
inline __half __low2half(__half2 value) { return value.x; }
inline __half __high2half(__half2 value) { return value.y; }
inline __half __ushort_as_half(unsigned short bits) {
  __half made;
  made.bits = bits;
  return made;
}
inline unsigned short __half_as_ushort(__half value) { return value.bits; }
inline __half __short_as_half(short bits) { return __ushort_as_half(static_cast<unsigned short>(bits)); }
inline short __half_as_short(__half value) { return static_cast<short>(value.bits); }

#include <half_arithmetic.h>
WW_HOST_HALF(__half, __half2)
