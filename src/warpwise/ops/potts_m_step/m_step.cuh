// What k01 and k02 share: the threads of a block, constants, and the step of beta.
#pragma once

constexpr int kSide = 16, kThreads = kSide * kSide;
constexpr float kLeastCount = 1e-3f;  // a domain with a smaller count keeps its mean
constexpr double kLogTwoPi = 1.8378770664093453;

// A step of Newton's method on the pseudo-likelihood of beta, at most a quarter of `highest`, to a beta in [0,
// highest].
__device__ inline float newton_step(float beta, float gradient, float curvature, float highest) {
  const float longest = 0.25f * highest, step = curvature > 0.0f ? gradient / curvature : 0.0f;
  return fminf(fmaxf(beta + fminf(fmaxf(step, -longest), longest), 0.0f), highest);
}
