// Activations and their backward in float32. gelu is x * Phi(x), Phi the normal distribution; gelu_tanh approximates
// Phi(x) by (1 + tanh(u)) / 2 = 1 / (1 + e^(-2 u)), u = sqrt(2 / pi) * (x + 0.044715 x^3).
#pragma once

#include <warpwise/numeric.cuh>

namespace warpwise {

// In the order of warpwise.ops.linear's specification, which counts activations from 1.
constexpr int kIdentity = 0, kRelu = 1, kGelu = 2, kGeluTanh = 3;

// 2 u and its derivative in x.
__device__ inline float gelu_exponent(float x) { return 1.5957691f * x * (1.0f + 0.044715f * x * x); }
__device__ inline float gelu_exponent_slope(float x) { return 1.5957691f * (1.0f + 0.134145f * x * x); }

// NaN stays NaN.
template <int ACTIVATION>
__device__ inline float activated(float x) {
  static_assert(ACTIVATION >= kIdentity && ACTIVATION <= kGeluTanh, "one of the four");
  if (ACTIVATION == kRelu) return x < 0.0f ? 0.0f : x;
  if (ACTIVATION == kGelu) return 0.5f * x * (1.0f + erff(0.70710678f * x));
  if (ACTIVATION == kGeluTanh) return __fdividef(x, 1.0f + __expf(-gelu_exponent(x)));
  return x;
}

// The gradient before the activation, from that after it; relu's slope at 0 is 0, as PyTorch's.
template <int ACTIVATION>
__device__ inline float activation_backward(float gradient, float x) {
  if (ACTIVATION == kRelu) return x <= 0.0f ? 0.0f : gradient;
  if (ACTIVATION == kGelu) {
    return gradient * (0.5f * (1.0f + erff(0.70710678f * x)) + x * 0.39894228f * __expf(-0.5f * x * x));
  }
  if (ACTIVATION == kGeluTanh) {
    const float power = __expf(-gelu_exponent(x)), share = __fdividef(1.0f, 1.0f + power);
    // x times the exponent's slope may overflow; where it does, the product of the shares is 0 and comes first.
    return gradient * (share + share * (1.0f - share) * x * gelu_exponent_slope(x));
  }
  return gradient;
}

}  // namespace warpwise
