// cuda_fp6.h for the emulator: the 6-bit floating-point types e2m3 (exponent bias 1, maximum 7.5) and e3m2 (exponent
// bias 3, maximum 28) without infinity and NaN, each in the low bits of a byte, and vectors of two and four of them.
#pragma once
#include "cuda_fp8.h"

typedef unsigned char __nv_fp6_storage_t;
typedef unsigned short __nv_fp6x2_storage_t;
typedef unsigned int __nv_fp6x4_storage_t;
enum __nv_fp6_interpretation_t { __NV_E2M3, __NV_E3M2 };

#define WW_FP6(KIND, CALL) ((KIND) == __NV_E2M3 ? ww::FiniteFloat<2, 3>::CALL : ww::FiniteFloat<3, 2>::CALL)
WW_SMALL_FLOAT_CONVERSIONS(fp6, WW_FP6, 8)
#undef WW_FP6
#define WW_E2M3 ww::FiniteFloat<2, 3>
#define WW_E3M2 ww::FiniteFloat<3, 2>
WW_SMALL_FLOAT(fp6, e2m3, __NV_E2M3, WW_E2M3, 8)
WW_SMALL_FLOAT(fp6, e3m2, __NV_E3M2, WW_E3M2, 8)
#undef WW_E2M3
#undef WW_E3M2
