// Conversions to and from float32, infinities and ceiling division.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace warpwise {

template <class Integer>
__host__ __device__ constexpr Integer cdiv(Integer dividend, Integer divisor) {
  return (dividend + divisor - 1) / divisor;
}

__device__ inline float minus_infinity() { return __int_as_float(0xff800000); }

__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(__half value) { return __half2float(value); }
__device__ inline float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

// Rounds to nearest even.
template <class T>
__device__ inline T from_float(float value);
template <>
__device__ inline float from_float<float>(float value) {
  return value;
}
template <>
__device__ inline __half from_float<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

// The accumulator is float, or int for int8, which is exact: conversions of operands to it and of sums from it.
template <class T>
__device__ inline float to_accumulator(T value) {
  return to_float(value);
}
__device__ inline int to_accumulator(signed char value) { return value; }

template <class Out>
__device__ inline Out from_accumulator(float sum) {
  return from_float<Out>(sum);
}
template <class Out>
__device__ inline Out from_accumulator(int sum) {
  return sum;
}

// e^value to the precision of T. expf is within 2 ulp of float32. ex2.approx of value * log2(e) has a relative error of
// about |value| * 2^-23, far below half an ulp of a 2-byte result, and takes two instructions instead of eight.
template <class T>
__device__ inline float exponential(float value) {
  return __expf(value);
}
template <>
__device__ inline float exponential<float>(float value) {
  return expf(value);
}

}  // namespace warpwise
