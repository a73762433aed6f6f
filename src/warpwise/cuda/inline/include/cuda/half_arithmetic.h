// Arithmetic of half and bfloat16 for host code: computed in float, or in double for a fused multiplication and
// addition, and rounded once.
#pragma once
#include <math.h>

#define WW_HOST_HALF_BINARY(H, H2, NAME, EXPRESSION) \
  inline H __h##NAME(H left, H right) {              \
    const float a = left, b = right;                 \
    return H(EXPRESSION);                            \
  }                                                  \
  inline H2 __h##NAME##2(H2 left, H2 right) { return {__h##NAME(left.x, right.x), __h##NAME(left.y, right.y)}; }
#define WW_HOST_HALF_COMPARISON(H, H2, NAME, OPERATOR)                                                              \
  inline bool __h##NAME(H left, H right) { return float(left) OPERATOR float(right); }                              \
  inline bool __hb##NAME##2(H2 left, H2 right) { return __h##NAME(left.x, right.x) && __h##NAME(left.y, right.y); } \
  inline H2 __h##NAME##2(H2 left, H2 right) {                                                                       \
    return {H(float(__h##NAME(left.x, right.x))), H(float(__h##NAME(left.y, right.y)))};                            \
  }
#define WW_HOST_HALF_UNARY(H, NAME, EXPRESSION) \
  inline H NAME(H value) {                      \
    const float x = value;                      \
    return H(EXPRESSION);                       \
  }
#define WW_HOST_HALF_OPERATOR(H, H2, NAME, OPERATOR)                                                 \
  inline H& operator OPERATOR## = (H & a, const H& b) { return a = NAME(a, b); }                     \
  inline H2 operator OPERATOR(const H2& a, const H2& b) { return {NAME(a.x, b.x), NAME(a.y, b.y)}; } \
  inline H2& operator OPERATOR## = (H2 & a, const H2& b) { return a = a OPERATOR b; }
#define WW_HOST_HALF(H, H2)                                                                                   \
  WW_HOST_HALF_BINARY(H, H2, add, a + b)                                                                      \
  WW_HOST_HALF_BINARY(H, H2, sub, a - b)                                                                      \
  WW_HOST_HALF_BINARY(H, H2, mul, a* b)                                                                       \
  WW_HOST_HALF_BINARY(H, H2, max, fmaxf(a, b))                                                                \
  WW_HOST_HALF_BINARY(H, H2, min, fminf(a, b))                                                                \
  WW_HOST_HALF_COMPARISON(H, H2, eq, ==)                                                                      \
  WW_HOST_HALF_COMPARISON(H, H2, ne, !=)                                                                      \
  WW_HOST_HALF_COMPARISON(H, H2, lt, <)                                                                       \
  WW_HOST_HALF_COMPARISON(H, H2, le, <=)                                                                      \
  WW_HOST_HALF_COMPARISON(H, H2, gt, >)                                                                       \
  WW_HOST_HALF_COMPARISON(H, H2, ge, >=)                                                                      \
  WW_HOST_HALF_UNARY(H, __hneg, -x)                                                                           \
  WW_HOST_HALF_UNARY(H, __habs, fabsf(x))                                                                     \
  WW_HOST_HALF_UNARY(H, hexp, expf(x))                                                                        \
  WW_HOST_HALF_UNARY(H, hexp2, exp2f(x))                                                                      \
  WW_HOST_HALF_UNARY(H, hlog, logf(x))                                                                        \
  WW_HOST_HALF_UNARY(H, hlog2, log2f(x))                                                                      \
  WW_HOST_HALF_UNARY(H, hsqrt, sqrtf(x))                                                                      \
  WW_HOST_HALF_UNARY(H, hrsqrt, 1 / sqrtf(x))                                                                 \
  WW_HOST_HALF_UNARY(H, hrcp, 1 / x)                                                                          \
  WW_HOST_HALF_UNARY(H, hsin, sinf(x))                                                                        \
  WW_HOST_HALF_UNARY(H, hcos, cosf(x))                                                                        \
  inline H __hdiv(H a, H b) { return H(float(a) / float(b)); }                                                \
  WW_HOST_HALF_OPERATOR(H, H2, __hadd, +)                                                                     \
  WW_HOST_HALF_OPERATOR(H, H2, __hsub, -)                                                                     \
  WW_HOST_HALF_OPERATOR(H, H2, __hmul, *)                                                                     \
  WW_HOST_HALF_OPERATOR(H, H2, __hdiv, /)                                                                     \
  inline H2 __h2div(H2 a, H2 b) { return {__hdiv(a.x, b.x), __hdiv(a.y, b.y)}; }                              \
  inline H __hfma(H a, H b, H c) { return H(float(double(float(a)) * double(float(b)) + double(float(c)))); } \
  inline H2 __hfma2(H2 a, H2 b, H2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }              \
  inline H2 __hneg2(H2 a) { return {__hneg(a.x), __hneg(a.y)}; }                                              \
  inline H2 __habs2(H2 a) { return {__habs(a.x), __habs(a.y)}; }                                              \
  inline bool __hisnan(H value) { return isnan(float(value)); }                                               \
  inline int __hisinf(H value) { return isinf(float(value)); }                                                \
  inline float __low2float(H2 value) { return value.x; }                                                      \
  inline float __high2float(H2 value) { return value.y; }
