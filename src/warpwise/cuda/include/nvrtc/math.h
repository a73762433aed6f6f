// Empty <math.h> for NVRTC, which declares printf, assert, malloc, free, memcpy, memset and the math functions.
#pragma once
