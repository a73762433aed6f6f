// Activations and their backward in float32. gelu is x * Phi(x), Phi the normal distribution; gelu_tanh approximates
// Phi(x) by (1 + tanh(u)) / 2 = 1 / (1 + e^(-2 u)), u = sqrt(2 / pi) * (x + 0.044715 x^3).
#pragma once

#include <warpwise/numeric.cuh>

namespace warpwise {

// In the order of warpwise.ops.linear's specification, which counts activations from 1.
constexpr int kIdentity = 0, kRelu = 1, kGelu = 2, kGeluTanh = 3;

// One instruction each, within 2 ulp; what is smaller than the smallest normal number is 0.
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

// (1 + tanh(u)) / 2; the power may overflow, and is right there too. 2 u log2(e) = x (2.3022082 + 0.10294324 x^2).
__device__ inline float tanh_distribution(float x) {
  return reciprocal(1.0f + power_of_two(-x * (2.3022082f + 0.10294324f * x * x)));
}

// e^(-x^2 / 2)
__device__ inline float bell(float x) { return power_of_two(-0.72134752f * x * x); }

// Phi, as exact as T can show: in float32 from erff; for 2-byte types by Abramowitz and Stegun's 7.1.26, within 2^-23.6
// of it, in one power, one reciprocal and some ten multiply-adds.
template <class T>
__device__ inline float normal_distribution(float x) {
  const float t = reciprocal(1.0f + 0.23164189f * fabsf(x));  // 0.3275911 / sqrt(2)
  const float sum = t * (0.12741480f + t * (-0.14224837f + t * (0.71070687f + t * (-0.72657601f + t * 0.53070271f))));
  const float beyond = sum * bell(x);
  return x > 0.0f ? 1.0f - beyond : beyond;
}
template <>
__device__ inline float normal_distribution<float>(float x) {
  return 0.5f * (1.0f + erff(0.70710678f * x));
}

// As exact as T can show; NaN stays NaN.
template <int ACTIVATION, class T>
__device__ inline float activated(float x) {
  static_assert(ACTIVATION >= kIdentity && ACTIVATION <= kGeluTanh, "one of the four");
  if (ACTIVATION == kRelu) return x < 0.0f ? 0.0f : x;
  if (ACTIVATION == kGelu) return x * normal_distribution<T>(x);
  if (ACTIVATION == kGeluTanh) return x * tanh_distribution(x);
  return x;
}

// The gradient before the activation, from that after it; relu's slope at 0 is 0, as PyTorch's.
template <int ACTIVATION, class T>
__device__ inline float activation_backward(float gradient, float x) {
  if (ACTIVATION == kRelu) return x <= 0.0f ? 0.0f : gradient;
  if (ACTIVATION == kGelu) return gradient * (normal_distribution<T>(x) + x * 0.39894228f * bell(x));
  if (ACTIVATION == kGeluTanh) {
    const float share = tanh_distribution(x), exponent_slope = 1.5957691f + 0.21406445f * x * x;
    // x times the exponent's slope may overflow; where it does, the product of the shares is 0 and comes first.
    return gradient * (share + share * (1.0f - share) * x * exponent_slope);
  }
  return gradient;
}

}  // namespace warpwise
