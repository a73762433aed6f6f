// What the rungs of one launch share: colours, reductions over adjacent lanes, powers of two.
#pragma once

constexpr int kMostColours = 32;
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr float kLog2E = 1.44269504f;

// Points ends[c] to ends[c + 1] have colour c.
struct Colours {
  int count, ends[kMostColours + 1];
};

template <int LANES>
__device__ inline float team_sum(float value) {
#pragma unroll
  for (int distance = LANES / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}

template <int LANES>
__device__ inline float team_max(float value) {
#pragma unroll
  for (int distance = LANES / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

// 2^x; results below 2^-126 are 0.
__device__ inline float exp2_ftz(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// 1 / x of a normal number.
__device__ inline float reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
