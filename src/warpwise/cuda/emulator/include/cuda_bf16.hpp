// CUDA's implementation header, for sources that include it directly.
#pragma once
#include "cuda_bf16.h"
