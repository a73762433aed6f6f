// cuda_fp4.h for host code: the types, which kernels take as arguments. Conversions are device code.
#pragma once
#include <cuda_fp6.h>

typedef unsigned char __nv_fp4_storage_t;
typedef unsigned char __nv_fp4x2_storage_t;
typedef unsigned short __nv_fp4x4_storage_t;
struct __nv_fp4_e2m1 {
  __nv_fp4_storage_t __x;
};
struct __nv_fp4x2_e2m1 {
  __nv_fp4x2_storage_t __x;
};
struct __nv_fp4x4_e2m1 {
  __nv_fp4x4_storage_t __x;
};
