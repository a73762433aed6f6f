// cuda_fp6.h for host code: the types, which kernels take as arguments. Conversions are device code.
#pragma once
#include <cuda_fp8.h>

typedef unsigned char __nv_fp6_storage_t;
typedef unsigned short __nv_fp6x2_storage_t;
typedef unsigned int __nv_fp6x4_storage_t;
struct __nv_fp6_e2m3 {
  __nv_fp6_storage_t __x;
};
struct __nv_fp6_e3m2 {
  __nv_fp6_storage_t __x;
};
struct __nv_fp6x2_e2m3 {
  __nv_fp6x2_storage_t __x;
};
struct __nv_fp6x2_e3m2 {
  __nv_fp6x2_storage_t __x;
};
struct __nv_fp6x4_e2m3 {
  __nv_fp6x4_storage_t __x;
};
struct __nv_fp6x4_e3m2 {
  __nv_fp6x4_storage_t __x;
};
