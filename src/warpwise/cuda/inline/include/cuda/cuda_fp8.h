// cuda_fp8.h for host code: the types, which kernels take as arguments. Conversions are device code.
#pragma once
#include <cuda_bf16.h>

struct __nv_fp8_e4m3 {
  unsigned char __x;
};
struct __nv_fp8_e5m2 {
  unsigned char __x;
};
