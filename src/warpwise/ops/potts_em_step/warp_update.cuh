// The softmax of k03 and the derivatives for beta: a lane has four domains of its points.
#pragma once

#include "warp_plan.cuh"

// If a sum of powers of two is between this and its inverse, terms that are flushed to zero do not count.
constexpr float kSafe = 1e18f;

// 1 / x of a normal number.
__device__ inline float reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// The first `valid` of a lane's four domains; VECTOR: all of them.
template <bool VECTOR>
__device__ inline void store_own(float* to, const float (&from)[4], int valid) {
  if (VECTOR) {
    if (valid > 0) __stcg(reinterpret_cast<float4*>(to), make_float4(from[0], from[1], from[2], from[3]));
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < valid) to[i] = from[i];
    }
  }
}

// Sums over the points of a lane: the counts of its domains, and its part of the derivatives.
template <class Plan>
struct WarpUpdate {
  static constexpr int kOwn = Plan::kOwn, LANES = Plan::LANES;
  int domains, part, own;  // part: of the point's lanes; own: the first domain
  float strength;          // beta in units of log 2
  float count[kOwn] = {}, gradient = 0.0f, curvature = 0.0f;

  __device__ bool exists(int i) const { return Plan::FULL || own + i < domains; }

  // scores become the probabilities of a point; fields: of the existing domains, minus infinity of the others. scored:
  // q_tile at the point's row and the lane's first domain.
  __device__ void operator()(float (&scores)[kOwn], float (&fields)[kOwn], const float (&support)[kOwn],
                             const warpwise::Float4& values, float unit, float* scored, bool inside) {
    const auto products = *reinterpret_cast<const warpwise::Float4*>(scored);
    float highest = warpwise::minus_infinity(), total = 0.0f;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      fields[i] = exists(i) ? unit * values.at[i] : warpwise::minus_infinity();
      scores[i] = products.at[i] + (strength * support[i] + fields[i]);
      highest = fmaxf(highest, scores[i]);
    }
    highest = team_max<LANES>(highest);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      scores[i] = exp2_ftz(scores[i] - highest);
      total += scores[i];
    }
    total = team_sum<LANES>(total);
    const float scale = inside ? reciprocal(total) : 0.0f;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      scores[i] *= scale;
      count[i] += scores[i];
    }
    *reinterpret_cast<warpwise::Float4*>(scored) = {scores[0], scores[1], scores[2], scores[3]};
  }

  // Of a point with probabilities q.
  __device__ void add_derivatives(const float (&q)[kOwn], const float (&fields)[kOwn], const float (&support)[kOwn],
                                  bool inside) {
    float sum, mean, square, shift = 0.0f;
    const auto add_prior = [&] {
      sum = mean = square = 0.0f;
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        const float p = exp2_ftz(strength * support[i] + fields[i] - shift), pn = p * support[i];
        sum += p;
        mean += pn;
        square += pn * support[i];
      }
      sum = team_sum<LANES>(sum);
    };
    add_prior();
    if (__any_sync(kAllLanes, !(sum > 1.0f / kSafe && sum < kSafe))) {
      shift = warpwise::minus_infinity();
#pragma unroll
      for (int i = 0; i < kOwn; ++i) shift = fmaxf(shift, strength * support[i] + fields[i]);
      shift = team_max<LANES>(shift);
      add_prior();
    }
    const float weight = inside ? reciprocal(sum) : 0.0f;
    float observed = 0.0f;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) observed += q[i] * support[i];
    gradient += observed - mean * weight;  // the lane's part
    mean = team_sum<LANES>(mean) * weight;
    curvature += square * weight - (part == 0 ? mean * mean : 0.0f);
  }
};
