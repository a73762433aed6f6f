// Complex numbers as float2 and double2, for device and host code.
#pragma once

typedef float2 cuFloatComplex;
typedef float2 cuComplex;
typedef double2 cuDoubleComplex;

#define WW_COMPLEX(TYPE, T, MAKE, REAL, IMAGINARY, CONJUGATE, ADD, SUBTRACT, MULTIPLY, DIVIDE, ABSOLUTE, FMA) \
  WW_INLINE TYPE MAKE(T x, T y) { return {x, y}; }                                                            \
  WW_INLINE T REAL(TYPE a) { return a.x; }                                                                    \
  WW_INLINE T IMAGINARY(TYPE a) { return a.y; }                                                               \
  WW_INLINE TYPE CONJUGATE(TYPE a) { return {a.x, -a.y}; }                                                    \
  WW_INLINE TYPE ADD(TYPE a, TYPE b) { return {a.x + b.x, a.y + b.y}; }                                       \
  WW_INLINE TYPE SUBTRACT(TYPE a, TYPE b) { return {a.x - b.x, a.y - b.y}; }                                  \
  WW_INLINE TYPE MULTIPLY(TYPE a, TYPE b) { return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; }          \
  WW_INLINE TYPE DIVIDE(TYPE a, TYPE b) { /* scaled, so that the squares stay in range */                     \
    const T scale = T(1) / (fabs(b.x) + fabs(b.y));                                                           \
    const TYPE p = {a.x * scale, a.y * scale}, q = {b.x * scale, b.y * scale};                                \
    const T size = T(1) / (q.x * q.x + q.y * q.y);                                                            \
    return {(p.x * q.x + p.y * q.y) * size, (p.y * q.x - p.x * q.y) * size};                                  \
  }                                                                                                           \
  WW_INLINE T ABSOLUTE(TYPE a) { return hypot(a.x, a.y); }                                                    \
  WW_INLINE TYPE FMA(TYPE a, TYPE b, TYPE c) { return ADD(MULTIPLY(a, b), c); }
WW_COMPLEX(cuFloatComplex, float, make_cuFloatComplex, cuCrealf, cuCimagf, cuConjf, cuCaddf, cuCsubf, cuCmulf, cuCdivf,
           cuCabsf, cuCfmaf)
WW_COMPLEX(cuDoubleComplex, double, make_cuDoubleComplex, cuCreal, cuCimag, cuConj, cuCadd, cuCsub, cuCmul, cuCdiv,
           cuCabs, cuCfma)
#undef WW_COMPLEX
WW_INLINE cuComplex make_cuComplex(float x, float y) { return {x, y}; }
