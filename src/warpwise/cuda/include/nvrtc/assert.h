// Empty <assert.h> for NVRTC, which declares printf, assert, malloc, free, memcpy, memset and the math functions
// itself.
#pragma once
