// CUDA's math functions that the C library does not have, in single and double precision, and the fast intrinsics.
#pragma once

// Fast single-precision intrinsics: the accurate result, which is within the error bounds that CUDA documents.
WW_INLINE float __expf(float x) { return expf(x); }
WW_INLINE float __exp10f(float x) { return exp10f(x); }
WW_INLINE float __logf(float x) { return logf(x); }
WW_INLINE float __log2f(float x) { return log2f(x); }
WW_INLINE float __log10f(float x) { return log10f(x); }
WW_INLINE float __sinf(float x) { return sinf(x); }
WW_INLINE float __cosf(float x) { return cosf(x); }
WW_INLINE float __tanf(float x) { return tanf(x); }
WW_INLINE float __tanhf(float x) { return tanhf(x); }
WW_INLINE float __powf(float x, float y) { return powf(x, y); }
WW_INLINE void __sincosf(float x, float* s, float* c) { *s = sinf(x), *c = cosf(x); }
// The quotient is 0 if 2^126 < |y| < 2^128, as on a GPU.
WW_INLINE float __fdividef(float x, float y) {
  const float size = fabsf(y);
  return size > 0x1p126f && size < INFINITY ? (isinf(x) ? NAN : copysignf(0.0f, x) * copysignf(1.0f, y)) : x / y;
}
WW_INLINE float fdividef(float x, float y) { return x / y; }
WW_INLINE double fdivide(double x, double y) { return x / y; }
WW_INLINE float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

WW_INLINE float rsqrtf(float x) { return static_cast<float>(1.0 / sqrt(static_cast<double>(x))); }
WW_INLINE double rsqrt(double x) { return 1.0 / sqrt(x); }
WW_INLINE float rsqrt(float x) { return rsqrtf(x); }
WW_INLINE float rcbrtf(float x) { return static_cast<float>(1.0 / cbrt(static_cast<double>(x))); }
WW_INLINE double rcbrt(double x) { return 1.0 / cbrt(x); }
WW_INLINE float rcbrt(float x) { return rcbrtf(x); }

namespace ww {
// sin(pi x) and cos(pi x). The reduction of x to [-1/2, 1/2] is exact.
WW_INLINE double sin_pi(double x) {
  if (!isfinite(x)) return NAN;
  const double n = rint(x), r = x - n;  // x = n + r
  const double s = sin(M_PI * r);
  return fmod(n, 2.0) == 0.0 ? s : -s;
}
WW_INLINE double cos_pi(double x) {
  if (!isfinite(x)) return NAN;
  const double n = rint(x), r = x - n;
  const double c = fabs(r) == 0.5 ? 0.0 : cos(M_PI * r);
  return fmod(n, 2.0) == 0.0 ? c : -c;
}
// The inverse of erf: S. Winitzki's approximation, then three steps of Newton's method, which reach full precision.
WW_INLINE double erf_inverse(double y) {
  if (!(fabs(y) < 1.0)) return fabs(y) == 1.0 ? copysign(INFINITY, y) : NAN;
  const double l = log1p(-y * y), t = 2.0 / (M_PI * 0.147) + 0.5 * l;
  double x = copysign(sqrt(sqrt(t * t - l / 0.147) - t), y);
  for (int step = 0; step < 4; ++step) x -= (erf(x) - y) * (sqrt(M_PI) / 2.0) * exp(x * x);
  return x;
}
WW_INLINE double erfc_inverse(double y) {
  if (!(y > 0.0 && y < 2.0)) return y == 0.0 ? INFINITY : y == 2.0 ? -INFINITY : NAN;
  if (y > 0.25) return y > 1.75 ? -erf_inverse(y - 1.0 > 0 ? 1.0 - (2.0 - y) : y - 1.0) : erf_inverse(1.0 - y);
  double x = sqrt(-log(y));
  for (int step = 0; step < 12; ++step) x += (erfc(x) - y) * (sqrt(M_PI) / 2.0) * exp(x * x);
  return x;
}
// exp(x^2) erfc(x); past 25 erfc underflows and the continued fraction has converged.
WW_INLINE double erfc_scaled(double x) {
  if (x < 25.0) return exp(x * x) * erfc(x);
  const double q = 1.0 / (x * x);
  return (1.0 / (x * sqrt(M_PI))) * (1.0 - 0.5 * q * (1.0 - 1.5 * q * (1.0 - 2.5 * q)));
}
// Power series of the modified Bessel functions, or their asymptotic expansion for large x.
WW_INLINE double bessel_i(int order, double x) {
  const double size = fabs(x), sign = order == 1 && x < 0 ? -1.0 : 1.0;
  double term = order == 0 ? 1.0 : size / 2, sum = term;
  if (size < 40.0) {
    for (int k = 1; term > sum * 1e-17; ++k) sum += term *= (size * size / 4) / (double(k) * (k + order));
    return sign * sum;
  }
  term = sum = 1.0;
  for (int k = 1; k < 12; ++k) sum += term *= -(4.0 * order * order - (2.0 * k - 1) * (2.0 * k - 1)) / (8.0 * k * size);
  return sign * exp(size) / sqrt(2.0 * M_PI * size) * sum;
}
}  // namespace ww

#define WW_MATH(NAME, ...)                                \
  WW_INLINE double NAME(double x) { return __VA_ARGS__; } \
  WW_INLINE float NAME##f(float v) {                      \
    const double x = v;                                   \
    return static_cast<float>(__VA_ARGS__);               \
  }                                                       \
  WW_INLINE float NAME(float x) { return NAME##f(x); }
WW_MATH(sinpi, ww::sin_pi(x))
WW_MATH(cospi, ww::cos_pi(x))
WW_MATH(erfinv, ww::erf_inverse(x))
WW_MATH(erfcinv, ww::erfc_inverse(x))
WW_MATH(erfcx, ww::erfc_scaled(x))
WW_MATH(normcdf, 0.5 * erfc(-x * M_SQRT1_2))
WW_MATH(normcdfinv, -M_SQRT2* ww::erfc_inverse(2.0 * x))
WW_MATH(cyl_bessel_i0, ww::bessel_i(0, x))
WW_MATH(cyl_bessel_i1, ww::bessel_i(1, x))
#undef WW_MATH

WW_INLINE void sincospi(double x, double* s, double* c) { *s = ww::sin_pi(x), *c = ww::cos_pi(x); }
WW_INLINE void sincospif(float x, float* s, float* c) { *s = sinpif(x), *c = cospif(x); }
WW_INLINE void sincos(float x, float* s, float* c) { *s = sinf(x), *c = cosf(x); }

// Norms and reciprocal norms, computed in double so that squares of floats neither overflow nor underflow.
WW_INLINE double norm3d(double a, double b, double c) { return hypot(hypot(a, b), c); }
WW_INLINE double norm4d(double a, double b, double c, double d) { return hypot(hypot(a, b), hypot(c, d)); }
WW_INLINE double rnorm3d(double a, double b, double c) { return 1.0 / norm3d(a, b, c); }
WW_INLINE double rnorm4d(double a, double b, double c, double d) { return 1.0 / norm4d(a, b, c, d); }
WW_INLINE double rhypot(double a, double b) { return 1.0 / hypot(a, b); }
WW_INLINE float norm3df(float a, float b, float c) { return static_cast<float>(norm3d(a, b, c)); }
WW_INLINE float norm4df(float a, float b, float c, float d) { return static_cast<float>(norm4d(a, b, c, d)); }
WW_INLINE float rnorm3df(float a, float b, float c) { return static_cast<float>(rnorm3d(a, b, c)); }
WW_INLINE float rnorm4df(float a, float b, float c, float d) { return static_cast<float>(rnorm4d(a, b, c, d)); }
WW_INLINE float rhypotf(float a, float b) { return static_cast<float>(rhypot(a, b)); }
WW_INLINE double norm(int n, const double* v) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum = hypot(sum, v[i]);
  return sum;
}
WW_INLINE double rnorm(int n, const double* v) { return 1.0 / norm(n, v); }
WW_INLINE float normf(int n, const float* v) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += static_cast<double>(v[i]) * v[i];
  return static_cast<float>(sqrt(sum));
}
WW_INLINE float rnormf(int n, const float* v) { return 1.0f / normf(n, v); }
