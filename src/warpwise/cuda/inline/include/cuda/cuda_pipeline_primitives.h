// A stub for host code: kernels, which use this header's contents, are compiled by the emulator.
#pragma once
#include "cuda_awbarrier_primitives.h"
