// <ATen/cuda/CUDAUtils.h>: forwards to CUDAContext.h and CUDAGuard.h.
#pragma once
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
