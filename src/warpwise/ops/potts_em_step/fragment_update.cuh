// The softmax of k04 for a point whose domains are in the lanes of one index, and the derivatives for beta.
#pragma once

#include "fragment_plan.cuh"

// If a sum of powers of two is between this and its inverse, terms that are flushed to zero do not count.
constexpr float kSafe = 1e18f;

// Sums over the points of a lane: the counts of its domains, and its part of the derivatives.
template <class Plan, class Lane, bool FIELDS>
struct FragmentUpdate {
  static constexpr int TILES = Plan::TILES;
  const FragmentMemory<Plan>& memory;
  int group, domains;
  float strength;  // beta in units of log 2
  float count[TILES][2] = {}, gradient = 0.0f, curvature = 0.0f;

  // Of tile m; `external`: the fields of the point with FIELDS.
  __device__ float field_of(const float* external, int m, int h) const {
    float field = memory.fields[(8 * m + group) * 2 + h];
    if (FIELDS) {
      const int k = Lane::domain(m, group, h);
      field += k < domains ? kLog2E * external[k] : 0.0f;
    }
    return field;
  }

  // The sums of p, p n and p n^2 over the lane's domains, p = 2^(strength n + field - shift).
  __device__ void add_prior(const float (&around)[TILES][2], const float* external, float shift, float (&to)[3]) const {
#pragma unroll
    for (int m = 0; m < TILES; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float prior = strength * around[m][h] + field_of(external, m, h);
        const float p = exp2_ftz(prior - shift), part = p * around[m][h];
        to[0] += p;
        to[1] += part;
        to[2] += part * around[m][h];
      }
    }
  }

  // Subtracts sum_k p n from the gradient, and adds the variance to the curvature.
  __device__ void add_derivatives(const float (&around)[TILES][2], const float* external, bool inside) {
    float parts[3] = {};
    add_prior(around, external, 0.0f, parts);
    float sum = groups_sum(parts[0]);
    if (__any_sync(kAllLanes, !(sum > 1.0f / kSafe && sum < kSafe))) {
      float shift = warpwise::minus_infinity();
#pragma unroll
      for (int m = 0; m < TILES; ++m) {
#pragma unroll
        for (int h = 0; h < 2; ++h) shift = fmaxf(shift, strength * around[m][h] + field_of(external, m, h));
      }
      parts[0] = parts[1] = parts[2] = 0.0f;
      add_prior(around, external, groups_max(shift), parts);
      sum = groups_sum(parts[0]);
    }
    const float scale = inside ? __fdividef(1.0f, sum) : 0.0f;
    gradient -= parts[1] * scale;  // the lane's part
    const float mean = groups_sum(parts[1]) * scale;
    curvature += parts[2] * scale - (group == 0 ? mean * mean : 0.0f);
  }

  // scores[m][2 h + j] become the point's probabilities, also in `around`.
  __device__ void operator()(float (&scores)[TILES][4], int j, float (&around)[TILES][2], const float* external,
                             bool inside, bool derivatives) {
    float highest = warpwise::minus_infinity();
#pragma unroll
    for (int m = 0; m < TILES; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float& score = scores[m][2 * h + j];
        const float offset = memory.offsets[(8 * m + group) * 2 + h] + (FIELDS ? field_of(external, m, h) : 0.0f);
        score += strength * around[m][h] + offset;
        highest = fmaxf(highest, score);
      }
    }
    highest = groups_max(highest);
    if (derivatives) add_derivatives(around, external, inside);
    float total = 0.0f, observed = 0.0f;
#pragma unroll
    for (int m = 0; m < TILES; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float& score = scores[m][2 * h + j];
        score = exp2_ftz(score - highest);
        total += score;
        observed += score * around[m][h];
      }
    }
    total = groups_sum(total);
    const float scale = inside ? __fdividef(1.0f, total) : 0.0f;
    gradient += observed * scale;
#pragma unroll
    for (int m = 0; m < TILES; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        around[m][h] = scores[m][2 * h + j] *= scale;
        count[m][h] += around[m][h];
      }
    }
  }
};
