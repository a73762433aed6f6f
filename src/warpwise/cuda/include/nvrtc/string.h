// Built into NVRTC: printf, assert, malloc, free, memcpy, memset and the math functions.
#pragma once
