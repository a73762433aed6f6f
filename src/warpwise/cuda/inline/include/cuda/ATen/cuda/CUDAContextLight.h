// <ATen/cuda/CUDAContextLight.h>: forwards to CUDAContext.h.
#pragma once
#include <ATen/cuda/CUDAContext.h>
