// cuda_fp8.h for host code: the types, which kernels take as arguments. Conversions are device code.
#pragma once
#include <cuda_bf16.h>

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
struct __nv_fp8_e4m3 {
  unsigned char __x;
};
struct __nv_fp8_e5m2 {
  unsigned char __x;
};
struct __nv_fp8_e8m0 {
  unsigned char __x;
};
struct __nv_fp8x2_e4m3 {
  __nv_fp8x2_storage_t __x;
};
struct __nv_fp8x2_e5m2 {
  __nv_fp8x2_storage_t __x;
};
struct __nv_fp8x2_e8m0 {
  __nv_fp8x2_storage_t __x;
};
struct __nv_fp8x4_e4m3 {
  __nv_fp8x4_storage_t __x;
};
struct __nv_fp8x4_e5m2 {
  __nv_fp8x4_storage_t __x;
};
struct __nv_fp8x4_e8m0 {
  __nv_fp8x4_storage_t __x;
};
