// Activation functions and their gradients in float32. gelu is x * Phi(x), Phi the normal distribution; gelu_tanh
// approximates Phi(x) by (1 + tanh(u)) / 2 = 1 / (1 + e^(-2 u)), u = sqrt(2 / pi) * (x + 0.044715 x^3).
#pragma once

#include <warpwise/core/numeric.cuh>

namespace warpwise {

// In the order of warpwise.ops.linear's specification, where activations are numbered from 1.
constexpr int kIdentity = 0, kRelu = 1, kGelu = 2, kGeluTanh = 3;

// One instruction each, within 2 ulp; subnormal numbers are flushed to 0.
__device__ inline float power_of_two(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
__device__ inline float reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// (1 + tanh(u)) / 2; also correct where the power overflows. 2 u log2(e) = x (2.3022082 + 0.10294324 x^2).
__device__ inline float tanh_cdf(float x) {
  return reciprocal(1.0f + power_of_two(-x * (2.3022082f + 0.10294324f * x * x)));
}

// e^(-x^2 / 2)
__device__ inline float gaussian(float x) { return power_of_two(-0.72134752f * x * x); }

// Phi to the precision of T: by erff for float32; for 2-byte types by Abramowitz and Stegun 7.1.26, with an error below
// 2^-23.6, one exponential, one reciprocal and about ten multiply-adds.
template <class T>
__device__ inline float normal_cdf(float x) {
  const float t = reciprocal(1.0f + 0.23164189f * fabsf(x));  // 0.3275911 / sqrt(2)
  const float sum = t * (0.12741480f + t * (-0.14224837f + t * (0.71070687f + t * (-0.72657601f + t * 0.53070271f))));
  const float tail = sum * gaussian(x);
  return x > 0.0f ? 1.0f - tail : tail;
}
template <>
__device__ inline float normal_cdf<float>(float x) {
  return 0.5f * (1.0f + erff(0.70710678f * x));
}

// To the precision of T; NaN gives NaN.
template <int ACTIVATION, class T>
__device__ inline float activate(float x) {
  static_assert(ACTIVATION >= kIdentity && ACTIVATION <= kGeluTanh, "one of the four");
  if (ACTIVATION == kRelu) return x < 0.0f ? 0.0f : x;
  if (ACTIVATION == kGelu) return x * normal_cdf<T>(x);
  if (ACTIVATION == kGeluTanh) return x * tanh_cdf(x);
  return x;
}

// The gradient of the activation's input, from that of its output. The derivative of relu at 0 is 0, as in PyTorch.
template <int ACTIVATION, class T>
__device__ inline float activation_backward(float gradient, float x) {
  if (ACTIVATION == kRelu) return x <= 0.0f ? 0.0f : gradient;
  if (ACTIVATION == kGelu) return gradient * (normal_cdf<T>(x) + x * 0.39894228f * gaussian(x));
  if (ACTIVATION == kGeluTanh) {
    // With p = e^(-|2 u|): cdf (1 - cdf) = p / (1 + p)^2, which has no cancellation where cdf is close to 1.
    const float p = power_of_two(-fabsf(x) * (2.3022082f + 0.10294324f * x * x)), r = reciprocal(1.0f + p);
    const float cdf = x > 0.0f ? r : p * r, exponent_slope = 1.5957691f + 0.21406445f * x * x;
    // x * exponent_slope may overflow where p is 0: p is multiplied first.
    return gradient * (cdf + p * r * r * x * exponent_slope);
  }
  return gradient;
}

}  // namespace warpwise
