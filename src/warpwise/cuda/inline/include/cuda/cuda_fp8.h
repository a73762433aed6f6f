// The 8-bit floats in host code: types that kernels take. Their conversions are device code.
#pragma once
#include <cuda_bf16.h>

struct __nv_fp8_e4m3 {
  unsigned char __x;
};
struct __nv_fp8_e5m2 {
  unsigned char __x;
};
