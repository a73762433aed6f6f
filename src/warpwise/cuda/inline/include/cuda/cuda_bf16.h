// cuda_bf16.h for host code: the types, which kernels take as arguments, conversions and arithmetic.
#pragma once
#include <cuda_fp16.h>

struct alignas(2) __nv_bfloat16 {
  unsigned short bits;
  __nv_bfloat16() = default;
  __nv_bfloat16(float value) {
    unsigned wide;
    memcpy(&wide, &value, sizeof wide);
    // Round to nearest even; NaN stays NaN.
    const bool nan = (wide & 0x7fffffffu) > 0x7f800000u;
    bits = nan ? 0x7fffu : static_cast<unsigned short>((wide + 0x7fffu + (wide >> 16 & 1u)) >> 16);
  }
  operator float() const {
    const unsigned wide = static_cast<unsigned>(bits) << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
  }
};
struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

inline __nv_bfloat16 __float2bfloat16(float value) { return __nv_bfloat16(value); }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return __nv_bfloat16(value); }
inline float __bfloat162float(__nv_bfloat16 value) { return value; }
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 value) { return {value, value}; }
inline __nv_bfloat162 __float2bfloat162_rn(float value) { return {__nv_bfloat16(value), __nv_bfloat16(value)}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {__nv_bfloat16(x), __nv_bfloat16(y)}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 value) { return __floats2bfloat162_rn(value.x, value.y); }
inline float2 __bfloat1622float2(__nv_bfloat162 value) { return make_float2(value.x, value.y); }
WW_HOST_HALF(__nv_bfloat16, __nv_bfloat162)
