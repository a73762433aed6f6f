// dim3 and the vector types (float4, ...): the emulator's own header, so that host and device layouts are the same.
#pragma once
#ifndef WW_INLINE
#define WW_INLINE static inline
#endif
#include <include/ww/vector_types.h>
