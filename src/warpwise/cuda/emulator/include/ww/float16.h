// __half and __nv_bfloat16 with their functions: float16_type.inc, float16_math.inc and float16_convert.inc are
// included once for each type. cuda_fp16.h and cuda_bf16.h add the public names.
#pragma once
#include "ww/float16_bits.h"

struct __half;
struct __nv_bfloat16;

namespace ww {
struct half_tag {};
struct bfloat16_tag {};
}  // namespace ww

#define WW_PASTE_(A, B, C) A##B##C
#define WW_PASTE(A, B, C) WW_PASTE_(A, B, C)
#define WW_NAME(BEFORE, AFTER) WW_PASTE(BEFORE, WW_STEM, AFTER)

#define WW_T __half
#define WW_T2 __half2
#define WW_RAW __half_raw
#define WW_RAW2 __half2_raw
#define WW_OTHER __nv_bfloat16
#define WW_TAG ww::half_tag
#define WW_STEM half
#define WW_BITS ww::half_bits
#define WW_VALUE ww::half_value
#define WW_INFINITY 0x7c00u
#include "ww/float16_type.inc"
#include "ww/float16_math.inc"
#include "ww/float16_convert.inc"
WW_INLINE __half2 __half2half2(__half a) { return {a, a}; }

#define WW_T __nv_bfloat16
#define WW_T2 __nv_bfloat162
#define WW_RAW __nv_bfloat16_raw
#define WW_RAW2 __nv_bfloat162_raw
#define WW_OTHER __half
#define WW_TAG ww::bfloat16_tag
#define WW_STEM bfloat16
#define WW_BITS ww::bfloat16_bits
#define WW_VALUE ww::bfloat16_value
#define WW_INFINITY 0x7f80u
#include "ww/float16_type.inc"
#include "ww/float16_math.inc"
#include "ww/float16_convert.inc"
WW_INLINE __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return {a, a}; }
#undef WW_NAME
#undef WW_PASTE
#undef WW_PASTE_

inline __half::__half(__nv_bfloat16 other) : __half(static_cast<float>(other)) {}
inline __nv_bfloat16::__nv_bfloat16(__half other) : __nv_bfloat16(static_cast<float>(other)) {}
