// cuda_fp8.h for the emulator: the 8-bit floating-point types e4m3 (exponent bias 7, no infinity, maximum 448) and e5m2
// (exponent bias 15), vectors of two and four of them, and the scale factors e8m0.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "ww/small_floats.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;

WW_INLINE __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturation,
                                                   __nv_fp8_interpretation_t kind) {
  return kind == __NV_E4M3 ? ww::fp8_bits<__NV_E4M3>(x, saturation) : ww::fp8_bits<__NV_E5M2>(x, saturation);
}
WW_INLINE __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t saturation,
                                                    __nv_fp8_interpretation_t kind) {
  if (x != x) {  // the sign, and in e5m2 the upper bits, of the NaN
    const auto u = ww::bits<unsigned long long>(x);
    return static_cast<unsigned char>((u >> 63) << 7 | 0x7eu | (kind == __NV_E4M3 ? 1u : u >> 50 & 3u));
  }
  return __nv_cvt_float_to_fp8(ww::to_odd(x), saturation, kind);
}
WW_INLINE __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x, __nv_saturation_t saturation,
                                                     __nv_fp8_interpretation_t kind) {
  return __nv_cvt_float_to_fp8(ww::half_value(x.x), saturation, kind);
}
WW_INLINE __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw x, __nv_saturation_t saturation,
                                                         __nv_fp8_interpretation_t kind) {
  return __nv_cvt_float_to_fp8(ww::bfloat16_value(x.x), saturation, kind);
}
WW_INLINE __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) {
  return {ww::half_bits(kind == __NV_E4M3 ? ww::fp8_value<__NV_E4M3>(x) : ww::fp8_value<__NV_E5M2>(x))};
}
WW_INLINE __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t kind) {
  return {__nv_cvt_fp8_to_halfraw(static_cast<unsigned char>(x), kind).x,
          __nv_cvt_fp8_to_halfraw(static_cast<unsigned char>(x >> 8), kind).x};
}
#define WW_FP8_PAIR(NAME, FROM, FIRST, SECOND)                                                                \
  WW_INLINE __nv_fp8x2_storage_t NAME(FROM x, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) { \
    return static_cast<__nv_fp8x2_storage_t>(__nv_cvt_float_to_fp8(FIRST, saturation, kind) |                 \
                                             __nv_cvt_float_to_fp8(SECOND, saturation, kind) << 8);           \
  }
WW_FP8_PAIR(__nv_cvt_float2_to_fp8x2, float2, x.x, x.y)
WW_FP8_PAIR(__nv_cvt_double2_to_fp8x2, double2, ww::to_odd(x.x), ww::to_odd(x.y))
WW_FP8_PAIR(__nv_cvt_halfraw2_to_fp8x2, __half2_raw, ww::half_value(x.x), ww::half_value(x.y))
WW_FP8_PAIR(__nv_cvt_bfloat16raw2_to_fp8x2, __nv_bfloat162_raw, ww::bfloat16_value(x.x), ww::bfloat16_value(x.y))
#undef WW_FP8_PAIR

// Conversions are explicit and saturate to the largest finite value.
#define WW_FP8(KIND, SUFFIX)                                                                                           \
  struct __nv_fp8_##SUFFIX {                                                                                           \
    __nv_fp8_storage_t __x;                                                                                            \
    __nv_fp8_##SUFFIX() = default;                                                                                     \
    explicit __nv_fp8_##SUFFIX(float f) : __x(ww::fp8_bits<KIND>(f, __NV_SATFINITE)) {}                                \
    explicit __nv_fp8_##SUFFIX(double f) : __x(__nv_cvt_double_to_fp8(f, __NV_SATFINITE, KIND)) {}                     \
    explicit __nv_fp8_##SUFFIX(__half h) : __nv_fp8_##SUFFIX(ww::value(h)) {}                                          \
    explicit __nv_fp8_##SUFFIX(__nv_bfloat16 h) : __nv_fp8_##SUFFIX(ww::value(h)) {}                                   \
    template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0>                                               \
    explicit __nv_fp8_##SUFFIX(T value) : __nv_fp8_##SUFFIX(ww::narrowed(value)) {}                                    \
    explicit operator float() const { return ww::fp8_value<KIND>(__x); }                                               \
    explicit operator double() const { return ww::fp8_value<KIND>(__x); }                                              \
    explicit operator __half() const { return __half(ww::fp8_value<KIND>(__x)); }                                      \
    explicit operator __nv_bfloat16() const { return __nv_bfloat16(ww::fp8_value<KIND>(__x)); }                        \
    explicit operator bool() const { return (__x & 0x7fu) != 0; }                                                      \
    template <class T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>                   \
    explicit operator T() const {                                                                                      \
      return ww::to_integer<T, ww::Rounding::zero>(ww::fp8_value<KIND>(__x));                                          \
    }                                                                                                                  \
  };                                                                                                                   \
  struct __attribute__((aligned(2))) __nv_fp8x2_##SUFFIX {                                                             \
    __nv_fp8x2_storage_t __x;                                                                                          \
    __nv_fp8x2_##SUFFIX() = default;                                                                                   \
    explicit __nv_fp8x2_##SUFFIX(float2 f) : __x(__nv_cvt_float2_to_fp8x2(f, __NV_SATFINITE, KIND)) {}                 \
    explicit __nv_fp8x2_##SUFFIX(double2 f) : __x(__nv_cvt_double2_to_fp8x2(f, __NV_SATFINITE, KIND)) {}               \
    explicit __nv_fp8x2_##SUFFIX(__half2 f) : __x(__nv_cvt_halfraw2_to_fp8x2(f, __NV_SATFINITE, KIND)) {}              \
    explicit __nv_fp8x2_##SUFFIX(__nv_bfloat162 f) : __x(__nv_cvt_bfloat16raw2_to_fp8x2(f, __NV_SATFINITE, KIND)) {}   \
    explicit operator float2() const {                                                                                 \
      return {ww::fp8_value<KIND>(static_cast<unsigned char>(__x)),                                                    \
              ww::fp8_value<KIND>(static_cast<unsigned char>(__x >> 8))};                                              \
    }                                                                                                                  \
    explicit operator __half2() const { return __half2(__nv_cvt_fp8x2_to_halfraw2(__x, KIND)); }                       \
    explicit operator __nv_bfloat162() const {                                                                         \
      const float2 f = static_cast<float2>(*this);                                                                     \
      return {__nv_bfloat16(f.x), __nv_bfloat16(f.y)};                                                                 \
    }                                                                                                                  \
  };                                                                                                                   \
  struct __attribute__((aligned(4))) __nv_fp8x4_##SUFFIX {                                                             \
    __nv_fp8x4_storage_t __x;                                                                                          \
    __nv_fp8x4_##SUFFIX() = default;                                                                                   \
    explicit __nv_fp8x4_##SUFFIX(float4 f)                                                                             \
        : __x(__nv_cvt_float2_to_fp8x2({f.x, f.y}, __NV_SATFINITE, KIND) |                                             \
              static_cast<unsigned>(__nv_cvt_float2_to_fp8x2({f.z, f.w}, __NV_SATFINITE, KIND)) << 16) {}              \
    explicit __nv_fp8x4_##SUFFIX(double4 f)                                                                            \
        : __x(__nv_cvt_double2_to_fp8x2({f.x, f.y}, __NV_SATFINITE, KIND) |                                            \
              static_cast<unsigned>(__nv_cvt_double2_to_fp8x2({f.z, f.w}, __NV_SATFINITE, KIND)) << 16) {}             \
    explicit __nv_fp8x4_##SUFFIX(__nv_bfloat162 low, __nv_bfloat162 high)                                              \
        : __x(__nv_cvt_bfloat16raw2_to_fp8x2(low, __NV_SATFINITE, KIND) |                                              \
              static_cast<unsigned>(__nv_cvt_bfloat16raw2_to_fp8x2(high, __NV_SATFINITE, KIND)) << 16) {}              \
    explicit __nv_fp8x4_##SUFFIX(__half2 low, __half2 high)                                                            \
        : __x(__nv_cvt_halfraw2_to_fp8x2(low, __NV_SATFINITE, KIND) |                                                  \
              static_cast<unsigned>(__nv_cvt_halfraw2_to_fp8x2(high, __NV_SATFINITE, KIND)) << 16) {}                  \
    explicit operator float4() const {                                                                                 \
      const auto at = [this](int byte) { return ww::fp8_value<KIND>(static_cast<unsigned char>(__x >> (8 * byte))); }; \
      return {at(0), at(1), at(2), at(3)};                                                                             \
    }                                                                                                                  \
  };
WW_FP8(__NV_E4M3, e4m3)
WW_FP8(__NV_E5M2, e5m2)
#undef WW_FP8
#include "ww/e8m0.h"
