// The floating-point formats of 4 to 8 bits: their conversions from and to float, which cvt of PTX uses too, and the
// macros that declare the types of 4 and 6 bits.
#pragma once

// The result of a conversion that overflows: NaN (e4m3) or infinity (e5m2); or the largest finite value.
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

namespace ww {
// e5m2 is the upper byte of a half. e4m3 has 4 exponent bits; its bias differs from float's by 120.
template <__nv_fp8_interpretation_t kind>
WW_INLINE unsigned char fp8_bits(float f, __nv_saturation_t saturation) {
  constexpr int fraction = kind == __NV_E4M3 ? 3 : 2, bias = kind == __NV_E4M3 ? 7 : 15;
  constexpr unsigned largest = kind == __NV_E4M3 ? 0x7eu : 0x7bu, beyond = kind == __NV_E4M3 ? 0x7fu : 0x7cu;
  const unsigned u = bits<unsigned>(f), sign = u >> 24 & 0x80u, magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7f;  // as cvt of PTX
  unsigned result = small_float_bits<fraction, bias>(magnitude, sign);
  if (result > largest) result = saturation == __NV_SATFINITE ? largest : beyond;
  return static_cast<unsigned char>(sign | result);
}
template <__nv_fp8_interpretation_t kind>
WW_INLINE float fp8_value(unsigned char x) {
  if (kind == __NV_E5M2) return half_value(static_cast<unsigned short>(x << 8));
  const unsigned sign = (x & 0x80u) << 24, exponent = x >> 3 & 15u, fraction = x & 7u;
  if ((x & 0x7fu) == 0x7fu) return bits<float>(sign | 0x7fc00000u);
  if (exponent == 0) return bits<float>(sign | bits<unsigned>(static_cast<float>(fraction) * 0x1p-9f));
  return bits<float>(sign | (exponent + 120u) << 23 | fraction << 20);
}

// The scale factors e8m0: 2^(x - 127); 255 is NaN.
// The power of two next to |f|: the larger one by cudaRoundPosInf, the smaller one by cudaRoundZero.
WW_INLINE unsigned char e8m0_bits(float f, __nv_saturation_t saturation, cudaRoundMode mode, int line) {
  if (mode != cudaRoundPosInf && mode != cudaRoundZero)
    ww_fail(WW_UNDEFINED, "a conversion to e8m0 rounds by cudaRoundPosInf or cudaRoundZero only", line);
  const unsigned magnitude = bits<unsigned>(f) & 0x7fffffffu, exponent = magnitude >> 23;
  if (magnitude > 0x7f800000u) return 255;
  // Subnormal floats above 2^-127, whose bits are 0x400000, round up to 2^-126.
  const bool rest = exponent ? (magnitude & 0x7fffffu) != 0 : magnitude > 0x400000u;
  const unsigned result = exponent + (mode == cudaRoundPosInf && rest);
  return static_cast<unsigned char>(result >= 255 && saturation == __NV_SATFINITE ? 254 : result);
}
WW_INLINE float e8m0_value(unsigned char x) {
  return x == 255 ? bits<float>(0x7fffffffu) : bits<float>(x ? static_cast<unsigned>(x) << 23 : 0x400000u);
}

// A format without infinity and NaN: larger numbers saturate, and NaN becomes the largest number.
template <int kExponent, int kFraction>
struct FiniteFloat {
  static constexpr int bias = (1 << (kExponent - 1)) - 1;
  static constexpr unsigned sign = 1u << (kExponent + kFraction), largest = sign - 1;

  template <Rounding mode>
  static unsigned char from(float f) {
    const unsigned u = bits<unsigned>(f), magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<unsigned char>(largest);
    const unsigned rounded = small_float_bits<kFraction, bias, mode>(magnitude, u >> 31);
    return static_cast<unsigned char>((u >> 31 ? sign : 0u) | (rounded < largest ? rounded : largest));
  }
  static float value(unsigned char x) {
    const int exponent = static_cast<int>(x & largest) >> kFraction, fraction = x & ((1 << kFraction) - 1);
    const float significand = static_cast<float>(exponent ? fraction + (1 << kFraction) : fraction);
    const float magnitude = ldexpf(significand, (exponent ? exponent : 1) - bias - kFraction);
    return x & sign ? -magnitude : magnitude;
  }
  // The conversion functions of CUDA round to nearest or towards zero.
  static unsigned char from(float f, cudaRoundMode mode, int line) {
    if (mode != cudaRoundNearest && mode != cudaRoundZero)
      ww_fail(WW_UNDEFINED, "a conversion to this type rounds by cudaRoundNearest or cudaRoundZero only", line);
    return mode == cudaRoundNearest ? from<Rounding::nearest>(f) : from<Rounding::zero>(f);
  }
};
}  // namespace ww

// The conversion functions of a format, and those of the vectors of two numbers; the second is SHIFT bits higher.
#define WW_SMALL_FLOAT_CONVERSIONS(NAME, KIND, SHIFT)                                                                 \
  WW_INLINE __nv_##NAME##_storage_t __nv_cvt_float_to_##NAME(float x, __nv_##NAME##_interpretation_t kind,            \
                                                             cudaRoundMode mode, WW_LINE) {                           \
    return KIND(kind, from(x, mode, line));                                                                           \
  }                                                                                                                   \
  WW_INLINE __nv_##NAME##x2_storage_t __nv_cvt_float2_to_##NAME##x2(float2 x, __nv_##NAME##_interpretation_t kind,    \
                                                                    cudaRoundMode mode, WW_LINE) {                    \
    return static_cast<__nv_##NAME##x2_storage_t>(__nv_cvt_float_to_##NAME(x.x, kind, mode, line) |                   \
                                                  __nv_cvt_float_to_##NAME(x.y, kind, mode, line) << SHIFT);          \
  }                                                                                                                   \
  WW_SMALL_FLOAT_FROM(NAME, double, double, ww::to_odd(x))                                                            \
  WW_SMALL_FLOAT_FROM(NAME, __half_raw, halfraw, ww::half_value(x.x))                                                 \
  WW_SMALL_FLOAT_FROM(NAME, __nv_bfloat16_raw, bfloat16raw, ww::bfloat16_value(x.x))                                  \
  WW_SMALL_FLOAT_FROM_PAIR(NAME, double2, double2, ww::to_odd(x.x), ww::to_odd(x.y))                                  \
  WW_SMALL_FLOAT_FROM_PAIR(NAME, __half2_raw, halfraw2, ww::half_value(x.x), ww::half_value(x.y))                     \
  WW_SMALL_FLOAT_FROM_PAIR(NAME, __nv_bfloat162_raw, bfloat16raw2, ww::bfloat16_value(x.x), ww::bfloat16_value(x.y))  \
  WW_INLINE __half_raw __nv_cvt_##NAME##_to_halfraw(__nv_##NAME##_storage_t x, __nv_##NAME##_interpretation_t kind) { \
    return {ww::half_bits(KIND(kind, value(x)))};                                                                     \
  }                                                                                                                   \
  WW_INLINE __half2_raw __nv_cvt_##NAME##x2_to_halfraw2(__nv_##NAME##x2_storage_t x,                                  \
                                                        __nv_##NAME##_interpretation_t kind) {                        \
    return {__nv_cvt_##NAME##_to_halfraw(static_cast<unsigned char>(x & ((1 << SHIFT) - 1)), kind).x,                 \
            __nv_cvt_##NAME##_to_halfraw(static_cast<unsigned char>(x >> SHIFT), kind).x};                            \
  }
#define WW_SMALL_FLOAT_FROM(NAME, FROM, SHORT, VALUE)                                                         \
  WW_INLINE __nv_##NAME##_storage_t __nv_cvt_##SHORT##_to_##NAME(FROM x, __nv_##NAME##_interpretation_t kind, \
                                                                 cudaRoundMode mode, WW_LINE) {               \
    return __nv_cvt_float_to_##NAME(VALUE, kind, mode, line);                                                 \
  }
#define WW_SMALL_FLOAT_FROM_PAIR(NAME, FROM, SHORT, FIRST, SECOND)                                                  \
  WW_INLINE __nv_##NAME##x2_storage_t __nv_cvt_##SHORT##_to_##NAME##x2(FROM x, __nv_##NAME##_interpretation_t kind, \
                                                                       cudaRoundMode mode, WW_LINE) {               \
    return __nv_cvt_float2_to_##NAME##x2({FIRST, SECOND}, kind, mode, line);                                        \
  }

// The classes of a format, of one, two and four numbers. Their conversions are explicit and round to nearest.
#define WW_SMALL_FLOAT(NAME, SUFFIX, KIND, FORMAT, SHIFT)                                                             \
  struct __nv_##NAME##_##SUFFIX {                                                                                     \
    __nv_##NAME##_storage_t __x;                                                                                      \
    __nv_##NAME##_##SUFFIX() = default;                                                                               \
    explicit __nv_##NAME##_##SUFFIX(float f) : __x(FORMAT::from<ww::Rounding::nearest>(f)) {}                         \
    explicit __nv_##NAME##_##SUFFIX(double f) : __nv_##NAME##_##SUFFIX(ww::to_odd(f)) {}                              \
    explicit __nv_##NAME##_##SUFFIX(__half h) : __nv_##NAME##_##SUFFIX(ww::value(h)) {}                               \
    explicit __nv_##NAME##_##SUFFIX(__nv_bfloat16 h) : __nv_##NAME##_##SUFFIX(ww::value(h)) {}                        \
    template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0>                                              \
    explicit __nv_##NAME##_##SUFFIX(T value) : __nv_##NAME##_##SUFFIX(ww::narrowed(value)) {}                         \
    explicit operator float() const { return FORMAT::value(__x); }                                                    \
    explicit operator double() const { return FORMAT::value(__x); }                                                   \
    explicit operator __half() const { return __half(FORMAT::value(__x)); }                                           \
    explicit operator __nv_bfloat16() const { return __nv_bfloat16(FORMAT::value(__x)); }                             \
    explicit operator bool() const { return (__x & FORMAT::largest) != 0; }                                           \
    template <class T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>                  \
    explicit operator T() const {                                                                                     \
      return ww::to_integer<T, ww::Rounding::zero>(FORMAT::value(__x));                                               \
    }                                                                                                                 \
  };                                                                                                                  \
  struct __attribute__((aligned(sizeof(__nv_##NAME##x2_storage_t)))) __nv_##NAME##x2_##SUFFIX {                       \
    __nv_##NAME##x2_storage_t __x;                                                                                    \
    __nv_##NAME##x2_##SUFFIX() = default;                                                                             \
    explicit __nv_##NAME##x2_##SUFFIX(float2 f) : __x(__nv_cvt_float2_to_##NAME##x2(f, KIND, cudaRoundNearest)) {}    \
    explicit __nv_##NAME##x2_##SUFFIX(double2 f) : __x(__nv_cvt_double2_to_##NAME##x2(f, KIND, cudaRoundNearest)) {}  \
    explicit __nv_##NAME##x2_##SUFFIX(__half2 f) : __x(__nv_cvt_halfraw2_to_##NAME##x2(f, KIND, cudaRoundNearest)) {} \
    explicit __nv_##NAME##x2_##SUFFIX(__nv_bfloat162 f)                                                               \
        : __x(__nv_cvt_bfloat16raw2_to_##NAME##x2(f, KIND, cudaRoundNearest)) {}                                      \
    explicit operator __half2() const { return __half2(__nv_cvt_##NAME##x2_to_halfraw2(__x, KIND)); }                 \
    explicit operator float2() const {                                                                                \
      return {FORMAT::value(static_cast<unsigned char>(__x & ((1 << SHIFT) - 1))),                                    \
              FORMAT::value(static_cast<unsigned char>(__x >> SHIFT))};                                               \
    }                                                                                                                 \
  };                                                                                                                  \
  struct __attribute__((aligned(sizeof(__nv_##NAME##x4_storage_t)))) __nv_##NAME##x4_##SUFFIX {                       \
    __nv_##NAME##x4_storage_t __x;                                                                                    \
    __nv_##NAME##x4_##SUFFIX() = default;                                                                             \
    explicit __nv_##NAME##x4_##SUFFIX(float4 f)                                                                       \
        : __nv_##NAME##x4_##SUFFIX(__nv_##NAME##x2_##SUFFIX(float2{f.x, f.y}),                                        \
                                   __nv_##NAME##x2_##SUFFIX(float2{f.z, f.w})) {}                                     \
    explicit __nv_##NAME##x4_##SUFFIX(double4 f)                                                                      \
        : __nv_##NAME##x4_##SUFFIX(__nv_##NAME##x2_##SUFFIX(double2{f.x, f.y}),                                       \
                                   __nv_##NAME##x2_##SUFFIX(double2{f.z, f.w})) {}                                    \
    explicit __nv_##NAME##x4_##SUFFIX(__half2 low, __half2 high)                                                      \
        : __nv_##NAME##x4_##SUFFIX(__nv_##NAME##x2_##SUFFIX(low), __nv_##NAME##x2_##SUFFIX(high)) {}                  \
    explicit __nv_##NAME##x4_##SUFFIX(__nv_bfloat162 low, __nv_bfloat162 high)                                        \
        : __nv_##NAME##x4_##SUFFIX(__nv_##NAME##x2_##SUFFIX(low), __nv_##NAME##x2_##SUFFIX(high)) {}                  \
    explicit operator float4() const {                                                                                \
      const auto at = [this](int index) {                                                                             \
        return FORMAT::value(static_cast<unsigned char>(__x >> (SHIFT * index) & ((1 << SHIFT) - 1)));                \
      };                                                                                                              \
      return {at(0), at(1), at(2), at(3)};                                                                            \
    }                                                                                                                 \
                                                                                                                      \
   private:                                                                                                           \
    __nv_##NAME##x4_##SUFFIX(__nv_##NAME##x2_##SUFFIX low, __nv_##NAME##x2_##SUFFIX high)                             \
        : __x(static_cast<__nv_##NAME##x4_storage_t>(low.__x | unsigned(high.__x) << (2 * SHIFT))) {}                 \
  };
