// Arithmetic in float32 whatever a tensor's type: conversions, infinities, rounding-up division.
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

// Products are summed in float, those of int8 in int, exactly: what a factor becomes, and what its sums become.
template <class T>
__device__ inline float to_summed(T value) {
  return to_float(value);
}
__device__ inline int to_summed(signed char value) { return value; }

template <class Out>
__device__ inline Out from_sum(float sum) {
  return from_float<Out>(sum);
}
template <class Out>
__device__ inline Out from_sum(int sum) {
  return sum;
}

// e^value, as exact as T can show: expf is within 2 ulp of float32; ex2.approx of value * log2(e) is within about
// |value| * 2^-23 of it, far below half a unit in the last place of a 2-byte result, in two instructions instead of
// eight.
template <class T>
__device__ inline float exponential(float value) {
  return __expf(value);
}
template <>
__device__ inline float exponential<float>(float value) {
  return expf(value);
}

}  // namespace warpwise
