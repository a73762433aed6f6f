// dim3, float4 and their family: the emulator's own, so that host and kernels agree on every layout.
#pragma once
#ifndef WW_INLINE
#define WW_INLINE static inline
#endif
#include <include/ww/vector_types.h>
