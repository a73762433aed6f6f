// Conversions between integers and floating point with a rounding mode, bit casts, and arithmetic with a rounding mode.
#pragma once

enum cudaRoundMode { cudaRoundNearest, cudaRoundZero, cudaRoundPosInf, cudaRoundMinInf };

namespace ww {
enum class Rounding { nearest, zero, down, up };

// Conversion to an integer as by PTX cvt: values out of range saturate; NaN gives 0, or 0x8000000000000000 for 64 bits.
template <class To, Rounding mode, class From>
WW_INLINE auto to_integer(From x) {
  const From r = mode == Rounding::nearest ? rint(x)
                 : mode == Rounding::zero  ? trunc(x)
                 : mode == Rounding::down  ? floor(x)
                                           : ceil(x);
  constexpr To lowest = To(-1) < To(0) ? To(To(1) << (8 * sizeof(To) - 1)) : To(0), highest = To(~lowest);
  if (x != x) return sizeof(To) == 8 ? To(To(1) << (8 * sizeof(To) - 1)) : To(0);
  if (r <= static_cast<From>(lowest)) return lowest;
  return r >= static_cast<From>(highest) ? highest : static_cast<To>(r);
}

// An optimisation barrier on x: prevents the contraction of a multiplication and an addition into an FMA.
template <class T>
WW_INLINE auto uncontracted(T x) {
#if defined(__x86_64__)
  __asm__("" : "+x"(x));
#elif defined(__aarch64__)
  __asm__("" : "+w"(x));
#endif
  return x;
}

// Converts r, rounded to nearest, to the given rounding mode. `error` is the exact result minus r.
template <Rounding mode, class T>
WW_INLINE auto directed(T r, double error) {
  if (error == 0 || !(fabs(error) <= DBL_MAX) || r != r) return uncontracted(r);
  const bool grow = mode == Rounding::up || (mode == Rounding::zero && r < 0);
  const bool shrink = mode == Rounding::down || (mode == Rounding::zero && r > 0);
  if (error > 0 && grow) return uncontracted(static_cast<T>(nextafter(r, T(INFINITY))));
  if (error < 0 && shrink) return uncontracted(static_cast<T>(nextafter(r, T(-INFINITY))));
  return uncontracted(r);
}
template <class T>
WW_INLINE auto sum_error(T a, T b, T s) {
  const T part = uncontracted(s - a);
  return static_cast<double>(uncontracted(uncontracted(a - uncontracted(s - part)) + uncontracted(b - part)));
}
template <Rounding mode, class T>
WW_INLINE auto add(T a, T b) {
  const T s = uncontracted(uncontracted(a) + b);
  return directed<mode>(s, mode == Rounding::nearest ? 0.0 : sum_error(a, b, s));
}
template <Rounding mode, class T>
WW_INLINE auto multiply(T a, T b) {
  const T p = uncontracted(uncontracted(a) * b);
  return directed<mode>(p, mode == Rounding::nearest ? 0.0 : static_cast<double>(fma(a, b, -p)));
}
template <Rounding mode, class T>
WW_INLINE auto divide(T a, T b) {
  const T q = uncontracted(a / b);
  const double rest = static_cast<double>(fma(-q, b, a));
  return directed<mode>(q, mode == Rounding::nearest ? 0.0 : b < 0 ? -rest : rest);
}
template <Rounding mode, class T>
WW_INLINE auto root(T a) {
  const T r = uncontracted(static_cast<T>(sqrt(a)));
  return directed<mode>(r, mode == Rounding::nearest ? 0.0 : static_cast<double>(fma(-r, r, a)));
}
template <Rounding mode>
WW_INLINE auto multiply_add(float a, float b, float c) {
  const float r = uncontracted(fmaf(a, b, c));
  const double product = static_cast<double>(a) * b,
               sum = uncontracted(product + c);  // the product of two floats is exact
  return directed<mode>(r,
                        mode == Rounding::nearest ? 0.0 : (sum - r) + sum_error(product, static_cast<double>(c), sum));
}
template <Rounding mode>
WW_INLINE auto multiply_add(double a, double b, double c) {
  const double r = uncontracted(fma(a, b, c));
  const double p = uncontracted(a * b), low = fma(a, b, -p), s = uncontracted(p + c), rest = sum_error(p, c, s);
  return directed<mode>(r, mode == Rounding::nearest ? 0.0 : (s - r) + (rest + low));
}
template <Rounding mode, class To, class From>
WW_INLINE auto from_value(From x) {
  const To r = static_cast<To>(x);
  if (mode == Rounding::nearest) return r;
  return directed<mode>(r, static_cast<double>(static_cast<long double>(x) - static_cast<long double>(r)));
}
}  // namespace ww

#define WW_ROUNDED(SUFFIX, MODE)                                                                                       \
  WW_INLINE float __fadd_##SUFFIX(float a, float b) { return ww::add<MODE>(a, b); }                                    \
  WW_INLINE float __fsub_##SUFFIX(float a, float b) { return ww::add<MODE>(a, -b); }                                   \
  WW_INLINE float __fmul_##SUFFIX(float a, float b) { return ww::multiply<MODE>(a, b); }                               \
  WW_INLINE float __fmaf_##SUFFIX(float a, float b, float c) { return ww::multiply_add<MODE>(a, b, c); }               \
  WW_INLINE float __fmaf_ieee_##SUFFIX(float a, float b, float c) { return ww::multiply_add<MODE>(a, b, c); }          \
  WW_INLINE float __fdiv_##SUFFIX(float a, float b) { return ww::divide<MODE>(a, b); }                                 \
  WW_INLINE float __frcp_##SUFFIX(float a) { return ww::divide<MODE>(1.0f, a); }                                       \
  WW_INLINE float __fsqrt_##SUFFIX(float a) { return ww::root<MODE>(a); }                                              \
  WW_INLINE double __dadd_##SUFFIX(double a, double b) { return ww::add<MODE>(a, b); }                                 \
  WW_INLINE double __dsub_##SUFFIX(double a, double b) { return ww::add<MODE>(a, -b); }                                \
  WW_INLINE double __dmul_##SUFFIX(double a, double b) { return ww::multiply<MODE>(a, b); }                            \
  WW_INLINE double __fma_##SUFFIX(double a, double b, double c) { return ww::multiply_add<MODE>(a, b, c); }            \
  WW_INLINE double __ddiv_##SUFFIX(double a, double b) { return ww::divide<MODE>(a, b); }                              \
  WW_INLINE double __drcp_##SUFFIX(double a) { return ww::divide<MODE>(1.0, a); }                                      \
  WW_INLINE double __dsqrt_##SUFFIX(double a) { return ww::root<MODE>(a); }                                            \
  WW_INLINE int __float2int_##SUFFIX(float x) { return ww::to_integer<int, MODE>(x); }                                 \
  WW_INLINE unsigned __float2uint_##SUFFIX(float x) { return ww::to_integer<unsigned, MODE>(x); }                      \
  WW_INLINE long long __float2ll_##SUFFIX(float x) { return ww::to_integer<long long, MODE>(x); }                      \
  WW_INLINE unsigned long long __float2ull_##SUFFIX(float x) { return ww::to_integer<unsigned long long, MODE>(x); }   \
  WW_INLINE int __double2int_##SUFFIX(double x) { return ww::to_integer<int, MODE>(x); }                               \
  WW_INLINE unsigned __double2uint_##SUFFIX(double x) { return ww::to_integer<unsigned, MODE>(x); }                    \
  WW_INLINE long long __double2ll_##SUFFIX(double x) { return ww::to_integer<long long, MODE>(x); }                    \
  WW_INLINE unsigned long long __double2ull_##SUFFIX(double x) { return ww::to_integer<unsigned long long, MODE>(x); } \
  WW_INLINE float __double2float_##SUFFIX(double x) { return ww::from_value<MODE, float>(x); }                         \
  WW_INLINE float __int2float_##SUFFIX(int x) { return ww::from_value<MODE, float>(x); }                               \
  WW_INLINE float __uint2float_##SUFFIX(unsigned x) { return ww::from_value<MODE, float>(x); }                         \
  WW_INLINE float __ll2float_##SUFFIX(long long x) { return ww::from_value<MODE, float>(x); }                          \
  WW_INLINE float __ull2float_##SUFFIX(unsigned long long x) { return ww::from_value<MODE, float>(x); }                \
  WW_INLINE double __ll2double_##SUFFIX(long long x) { return ww::from_value<MODE, double>(x); }                       \
  WW_INLINE double __ull2double_##SUFFIX(unsigned long long x) { return ww::from_value<MODE, double>(x); }
WW_ROUNDED(rn, ww::Rounding::nearest)
WW_ROUNDED(rz, ww::Rounding::zero)
WW_ROUNDED(rd, ww::Rounding::down)
WW_ROUNDED(ru, ww::Rounding::up)
#undef WW_ROUNDED
WW_INLINE double __int2double_rn(int x) { return x; }
WW_INLINE double __uint2double_rn(unsigned x) { return x; }
// Blackwell: two operations at a time.
#define WW_PAIRS(SUFFIX)                                                     \
  WW_INLINE float2 __fadd2_##SUFFIX(float2 a, float2 b) {                    \
    return {__fadd_##SUFFIX(a.x, b.x), __fadd_##SUFFIX(a.y, b.y)};           \
  }                                                                          \
  WW_INLINE float2 __fmul2_##SUFFIX(float2 a, float2 b) {                    \
    return {__fmul_##SUFFIX(a.x, b.x), __fmul_##SUFFIX(a.y, b.y)};           \
  }                                                                          \
  WW_INLINE float2 __ffma2_##SUFFIX(float2 a, float2 b, float2 c) {          \
    return {__fmaf_##SUFFIX(a.x, b.x, c.x), __fmaf_##SUFFIX(a.y, b.y, c.y)}; \
  }
WW_PAIRS(rn)
WW_PAIRS(rz)
WW_PAIRS(rd)
WW_PAIRS(ru)
#undef WW_PAIRS
WW_INLINE float __frsqrt_rn(float x) {
  return ww::uncontracted(static_cast<float>(1.0 / sqrt(static_cast<double>(x))));
}

WW_INLINE int __float_as_int(float x) { return ww::bits<int>(x); }
WW_INLINE unsigned __float_as_uint(float x) { return ww::bits<unsigned>(x); }
WW_INLINE float __int_as_float(int x) { return ww::bits<float>(x); }
WW_INLINE float __uint_as_float(unsigned x) { return ww::bits<float>(x); }
WW_INLINE long long __double_as_longlong(double x) { return ww::bits<long long>(x); }
WW_INLINE double __longlong_as_double(long long x) { return ww::bits<double>(x); }
WW_INLINE int __double2hiint(double x) { return static_cast<int>(ww::bits<long long>(x) >> 32); }
WW_INLINE int __double2loint(double x) { return static_cast<int>(ww::bits<long long>(x)); }
WW_INLINE double __hiloint2double(int hi, int lo) {
  return ww::bits<double>(static_cast<unsigned long long>(static_cast<unsigned>(hi)) << 32 | static_cast<unsigned>(lo));
}
