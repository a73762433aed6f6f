// cuda_fp4.h for the emulator: the 4-bit floating-point type e2m1 (exponent bias 1, no infinity, no NaN, maximum 6),
// and vectors of two and four of them.
#pragma once
#include "cuda_fp6.h"

typedef unsigned char __nv_fp4_storage_t;
typedef unsigned char __nv_fp4x2_storage_t;
typedef unsigned short __nv_fp4x4_storage_t;
enum __nv_fp4_interpretation_t { __NV_E2M1 };

#define WW_FP4(KIND, CALL) (static_cast<void>(KIND), ww::FiniteFloat<2, 1>::CALL)
WW_SMALL_FLOAT_CONVERSIONS(fp4, WW_FP4, 4)
#undef WW_FP4
#define WW_E2M1 ww::FiniteFloat<2, 1>
WW_SMALL_FLOAT(fp4, e2m1, __NV_E2M1, WW_E2M1, 4)
#undef WW_E2M1
