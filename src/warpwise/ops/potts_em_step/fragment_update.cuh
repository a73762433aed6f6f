// The softmax of k04, k06 and k10 for a point whose domains are in the lanes of one index, and the derivatives for
// beta.
#pragma once

#include "fragment_plan.cuh"
#include "prior_sums.cuh"

// Sums over the points of a lane: the counts of its domains, and its part of the derivatives. Memory has the offsets
// and the fields of all points.
template <class Plan, class Lane, bool FIELDS, class Memory = FragmentMemory<Plan>>
struct FragmentUpdate {
  static constexpr int TILES = Plan::TILES;
  const Memory& memory;
  int group, domains;
  float strength;  // beta in units of log 2
  float count[TILES][2] = {}, gradient = 0.0f, curvature = 0.0f;

  // The field of a domain of tile m. `external`: with FIELDS, the fields of the point.
  __device__ float field_of(const float* external, int m, int h) const {
    float field = memory.fields[(8 * m + group) * 2 + h];
    if (FIELDS) {
      const int k = Lane::domain(m, group, h);
      field += k < domains ? kLog2E * external[k] : 0.0f;
    }
    return field;
  }

  // The sums of p, p n and p n^2 over the lane's domains, p = 2^(strength n + field - shift).
  __device__ void add_prior(const float (&around)[TILES][2], const float* external, float shift, float& sum,
                            float& mean, float& square) const {
#pragma unroll
    for (int m = 0; m < TILES; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float prior = strength * around[m][h] + field_of(external, m, h);
        const float p = exp2_ftz(prior - shift), part = p * around[m][h];
        sum += p;
        mean += part;
        square += part * around[m][h];
      }
    }
  }

  // The largest exponent of the lane's domains.
  __device__ float highest_prior(const float (&around)[TILES][2], const float* external) const {
    float highest = warpwise::minus_infinity();
#pragma unroll
    for (int m = 0; m < TILES; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) highest = fmaxf(highest, strength * around[m][h] + field_of(external, m, h));
    }
    return highest;
  }

  // P points: scores[m][2 h + first + p] of point p become its probabilities, also in `around`. Reductions are
  // two chains of shuffles: the largest scores, then all sums.
  template <int P>
  __device__ void operator()(float (&scores)[TILES][4], int first, float (&around)[P][TILES][2],
                             const float* const (&external)[P], const bool (&inside)[P], bool derivatives) {
    float highest[P], square[P] = {}, observed[P] = {}, sums[3 * P] = {};  // of powers, of p, of p n
#pragma unroll
    for (int p = 0; p < P; ++p) {
      highest[p] = warpwise::minus_infinity();
#pragma unroll
      for (int m = 0; m < TILES; ++m) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          float& score = scores[m][2 * h + first + p];
          float offset = memory.offset(m, group, h);
          if (FIELDS) offset += field_of(external[p], m, h);
          score += strength * around[p][m][h] + offset;
          highest[p] = fmaxf(highest[p], score);
        }
      }
    }
    lanes_max<4, 32>(highest);
#pragma unroll
    for (int p = 0; p < P; ++p) {
      if (derivatives) add_prior(around[p], external[p], 0.0f, sums[P + p], sums[2 * P + p], square[p]);
#pragma unroll
      for (int m = 0; m < TILES; ++m) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          float& score = scores[m][2 * h + first + p];
          score = exp2_ftz(score - highest[p]);
          sums[p] += score;
          observed[p] += score * around[p][m][h];
        }
      }
    }
    float means[P];  // the lane's parts
#pragma unroll
    for (int p = 0; p < P; ++p) means[p] = sums[2 * P + p];
    lanes_sum<4, 32>(sums);
    if (derivatives) shift_unsafe<4, 32>(*this, around, external, sums, means, square);
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const float scale = inside[p] ? reciprocal(sums[p]) : 0.0f;
      gradient += observed[p] * scale;
      if (derivatives) {  // subtracts sum_k p n from the gradient, and adds the variance to the curvature
        const float weight = inside[p] ? reciprocal(sums[P + p]) : 0.0f, mean = sums[2 * P + p] * weight;
        gradient -= means[p] * weight;
        curvature += square[p] * weight - (group == 0 ? mean * mean : 0.0f);
      }
#pragma unroll
      for (int m = 0; m < TILES; ++m) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          around[p][m][h] = scores[m][2 * h + first + p] *= scale;
          count[m][h] += around[p][m][h];
        }
      }
    }
  }
};
