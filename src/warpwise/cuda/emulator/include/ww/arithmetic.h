// CUDA's overloads of min and max at global scope.
#pragma once

#define WW_MIN_MAX(R, A, B)                                                               \
  WW_INLINE constexpr R min(const A a, const B b) {                                       \
    return static_cast<R>(b) < static_cast<R>(a) ? static_cast<R>(b) : static_cast<R>(a); \
  }                                                                                       \
  WW_INLINE constexpr R max(const A a, const B b) {                                       \
    return static_cast<R>(a) < static_cast<R>(b) ? static_cast<R>(b) : static_cast<R>(a); \
  }
#define WW_MIN_MAX_SIGNS(S, U) WW_MIN_MAX(S, S, S) WW_MIN_MAX(U, U, U) WW_MIN_MAX(U, S, U) WW_MIN_MAX(U, U, S)
WW_MIN_MAX_SIGNS(int, unsigned int)
WW_MIN_MAX_SIGNS(long, unsigned long)
WW_MIN_MAX_SIGNS(long long, unsigned long long)
#undef WW_MIN_MAX_SIGNS
#undef WW_MIN_MAX

// If one argument is NaN, the result is the other, as with fmin and fmax.
#define WW_MIN_MAX_FLOAT(R, A, B, SUFFIX)                                                                        \
  WW_INLINE R min(const A a, const B b) { return __builtin_fmin##SUFFIX(static_cast<R>(a), static_cast<R>(b)); } \
  WW_INLINE R max(const A a, const B b) { return __builtin_fmax##SUFFIX(static_cast<R>(a), static_cast<R>(b)); }
WW_MIN_MAX_FLOAT(float, float, float, f)
WW_MIN_MAX_FLOAT(double, double, double, )
WW_MIN_MAX_FLOAT(double, float, double, )
WW_MIN_MAX_FLOAT(double, double, float, )
#undef WW_MIN_MAX_FLOAT

WW_INLINE unsigned umin(unsigned a, unsigned b) { return a < b ? a : b; }
WW_INLINE unsigned umax(unsigned a, unsigned b) { return a > b ? a : b; }
WW_INLINE long long llmin(long long a, long long b) { return a < b ? a : b; }
WW_INLINE long long llmax(long long a, long long b) { return a > b ? a : b; }
WW_INLINE unsigned long long ullmin(unsigned long long a, unsigned long long b) { return a < b ? a : b; }
WW_INLINE unsigned long long ullmax(unsigned long long a, unsigned long long b) { return a > b ? a : b; }
