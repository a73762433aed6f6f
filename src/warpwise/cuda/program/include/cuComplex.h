// Complex numbers as float2 and double2: the emulator's own header.
#pragma once
#include <cuda_runtime.h>
#include <include/ww/complex.h>
