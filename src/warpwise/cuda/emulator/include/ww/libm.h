// The C library's <math.h> and <time.h> without the names that CUDA defines itself. glibc declares functions such as
// __expf, and since 2.41 rsqrtf and sinpif, with C linkage; macros rename these declarations.
#pragma once
#include <cstddef>  // libstdc++ defines the macro here
#ifdef _GLIBCXX_USE_STD_SPEC_FUNCS
#undef _GLIBCXX_USE_STD_SPEC_FUNCS
#define _GLIBCXX_USE_STD_SPEC_FUNCS 0  // C++17's special functions are half of <cmath>'s compile time; CUDA lacks them
#endif
#define clock ww_libc_clock  // CUDA has a device function of this name
#include <time.h>
#undef clock
#define __expf ww_libm_expf
#define __exp10f ww_libm_exp10f
#define __logf ww_libm_logf
#define __log2f ww_libm_log2f
#define __log10f ww_libm_log10f
#define __sinf ww_libm_sinf
#define __cosf ww_libm_cosf
#define __tanf ww_libm_tanf
#define __tanhf ww_libm_tanhf
#define __powf ww_libm_powf
#define __sincosf ww_libm_sincosf
#define rsqrt ww_libm_rsqrt
#define rsqrtf ww_libm_rsqrtf
#define sinpi ww_libm_sinpi
#define sinpif ww_libm_sinpif
#define cospi ww_libm_cospi
#define cospif ww_libm_cospif
#include <math.h>
#undef __expf
#undef __exp10f
#undef __logf
#undef __log2f
#undef __log10f
#undef __sinf
#undef __cosf
#undef __tanf
#undef __tanhf
#undef __powf
#undef __sincosf
#undef rsqrt
#undef rsqrtf
#undef sinpi
#undef sinpif
#undef cospi
#undef cospif
