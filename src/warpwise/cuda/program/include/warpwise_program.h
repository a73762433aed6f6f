// Included before a program's own text, as nvcc includes cuda_runtime.h: launches, and the functions that CUDA's
// headers add to the host's.
#pragma once
#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include <cuda_runtime.h>
#include <driver_entry_points.h>
#include <warpwise_host/launch.h>

#include "../../emulator/include/cuda/std/detail.h"  // libcu++ in host code is the C++ library

// Names that device functions use which are also host functions.
inline const uint3 threadIdx{}, blockIdx{};
inline const dim3 blockDim{}, gridDim{};
extern const int warpSize __attribute__((weak));

#define WW_HOST_MINMAX(T)                          \
  inline T min(T a, T b) { return b < a ? b : a; } \
  inline T max(T a, T b) { return a < b ? b : a; }
WW_HOST_MINMAX(int)
WW_HOST_MINMAX(unsigned)
WW_HOST_MINMAX(long)
WW_HOST_MINMAX(unsigned long)
WW_HOST_MINMAX(long long)
WW_HOST_MINMAX(unsigned long long)
WW_HOST_MINMAX(float)
WW_HOST_MINMAX(double)
#undef WW_HOST_MINMAX
inline unsigned min(int a, unsigned b) { return min(unsigned(a), b); }
inline unsigned min(unsigned a, int b) { return min(a, unsigned(b)); }
inline unsigned max(int a, unsigned b) { return max(unsigned(a), b); }
inline unsigned max(unsigned a, int b) { return max(a, unsigned(b)); }
inline double min(float a, double b) { return min(double(a), b); }
inline double min(double a, float b) { return min(a, double(b)); }
inline double max(float a, double b) { return max(double(a), b); }
inline double max(double a, float b) { return max(a, double(b)); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline double normcdf(double x) { return 0.5 * erfc(-x * 0.70710678118654752); }
inline float normcdff(float x) { return float(normcdf(double(x))); }
inline float normcdf(float x) { return normcdff(x); }
inline double rcbrt(double x) { return 1.0 / cbrt(x); }
inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
#if !defined(__GLIBC__) || __GLIBC__ * 100 + __GLIBC_MINOR__ < 241  // later versions have them
inline double sinpi(double x) { return sin(M_PI * remainder(x, 2.0)); }
inline double cospi(double x) { return cos(M_PI * remainder(x, 2.0)); }
inline float sinpif(float x) { return float(sinpi(double(x))); }
inline float cospif(float x) { return float(cospi(double(x))); }
#endif
inline float __uint_as_float(unsigned bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
inline float __int_as_float(int bits) { return __uint_as_float(unsigned(bits)); }
