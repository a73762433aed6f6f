// <ATen/cuda/Exceptions.h> for host code: AT_CUDA_CHECK.
#pragma once
#include <c10/cuda/CUDAException.h>

#define AT_CUDA_CHECK(expression) C10_CUDA_CHECK(expression)
