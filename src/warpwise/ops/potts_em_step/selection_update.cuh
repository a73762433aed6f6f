// The softmax of k07 and k09 for the points of a lane, whose domains are in the four lanes of a group, and the
// derivatives for beta.
#pragma once

#include "prior_sums.cuh"
#include "selection_plan.cuh"

// Sums over the points of a lane: its part of the derivatives. Memory has the fields of all points.
template <class Plan, bool FIELDS, class Memory = SelectionMemory<Plan>>
struct SelectionUpdate {
  static constexpr int TILES = Plan::TILES, GROUPS = Plan::kPair;
  using Lanes = RowLanes<TILES>;
  const Memory& memory;
  int index, domains;
  float strength;  // beta in units of log 2
  float gradient = 0.0f, curvature = 0.0f;

  // Four values [parity][x] of tile m that all points have.
  __device__ warpwise::Float4 four(const float* values, int m) const {
    return *reinterpret_cast<const warpwise::Float4*>(values + 16 * m + 4 * index);
  }

  // `of_all`, and with FIELDS the field of the point, in units of log 2.
  __device__ float field_of(float of_all, const float* external, int m, int h, int x) const {
    if constexpr (FIELDS) {
      const int k = Lanes::domain(m, index, h, x);
      of_all += k < domains ? kLog2E * external[k] : 0.0f;
    }
    return of_all;
  }

  // The sums of p, p n and p n^2 over the lane's domains, p = 2^(strength n + field - shift).
  __device__ void add_prior(const float (&around)[TILES][4], const float* external, float shift, float& sum,
                            float& mean, float& square) const {
#pragma unroll
    for (int m = 0; m < TILES; ++m) {
      const auto fields = four(memory.fields, m);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float near = around[m][i];
        const float field = field_of(fields.at[i], external, m, i / 2, i % 2) - shift;
        const float p = exp2_ftz(__fmaf_rn(strength, near, field)), part = p * near;
        sum += p;
        mean += part;
        square = __fmaf_rn(part, near, square);
      }
    }
  }

  // The largest exponent of the lane's domains.
  __device__ float highest_prior(const float (&around)[TILES][4], const float* external) const {
    float highest = warpwise::minus_infinity();
#pragma unroll
    for (int m = 0; m < TILES; ++m) {
      const auto fields = four(memory.fields, m);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float field = field_of(fields.at[i], external, m, i / 2, i % 2);
        highest = fmaxf(highest, __fmaf_rn(strength, around[m][i], field));
      }
    }
    return highest;
  }

  // What add_prior adds for the points of GROUPS groups, with a shift of 0.
  struct Priors {
    float sums[GROUPS], means[GROUPS], squares[GROUPS];
  };
  __device__ Priors priors(const float (&around)[GROUPS][TILES][4], const float* const (&external)[GROUPS]) const {
    Priors found = {};
#pragma unroll
    for (int j = 0; j < GROUPS; ++j) {
      add_prior(around[j], external[j], 0.0f, found.sums[j], found.means[j], found.squares[j]);
    }
    return found;
  }

  // pairs[j][m][x]: the new probabilities of point `group` of group j in bfloat16; zeros of a point that is not inside.
  __device__ void operator()(float (&scores)[TILES][2][4], const float (&around)[GROUPS][TILES][4],
                             const float* const (&external)[GROUPS], const bool (&inside)[GROUPS], bool slopes,
                             unsigned (&pairs)[GROUPS][TILES][2], const Priors* found = nullptr) {
    float highest[GROUPS], square[GROUPS] = {}, observed[GROUPS] = {};
    float sums[3 * GROUPS] = {};  // of powers, of priors p, of p n
#pragma unroll
    for (int j = 0; j < GROUPS; ++j) {
      highest[j] = warpwise::minus_infinity();
#pragma unroll
      for (int m = 0; m < TILES; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& score = scores[m][i / 2][2 * j + i % 2];
          score = __fmaf_rn(strength, around[j][m][i], field_of(score, external[j], m, i / 2, i % 2));
          highest[j] = fmaxf(highest[j], score);
        }
      }
    }
    lanes_max<1, 4>(highest);
#pragma unroll
    for (int j = 0; j < GROUPS; ++j) {
      if (found) {
        sums[GROUPS + j] = found->sums[j];
        sums[2 * GROUPS + j] = found->means[j];
        square[j] = found->squares[j];
      } else if (slopes) {
        add_prior(around[j], external[j], 0.0f, sums[GROUPS + j], sums[2 * GROUPS + j], square[j]);
      }
#pragma unroll
      for (int m = 0; m < TILES; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& score = scores[m][i / 2][2 * j + i % 2];
          score = exp2_ftz(score - highest[j]);
          sums[j] += score;
          observed[j] = __fmaf_rn(score, around[j][m][i], observed[j]);
        }
      }
    }
    float means[GROUPS];  // the lane's parts
#pragma unroll
    for (int j = 0; j < GROUPS; ++j) means[j] = sums[2 * GROUPS + j];
    lanes_sum<1, 4>(sums);
    if (slopes) shift_unsafe<1, 4>(*this, around, external, sums, means, square);
#pragma unroll
    for (int j = 0; j < GROUPS; ++j) {
      const float scale = inside[j] ? reciprocal(sums[j]) : 0.0f;
      gradient += observed[j] * scale;
      if (slopes) {  // subtracts sum_k p n from the gradient, and adds the variance to the curvature
        const float weight = inside[j] ? reciprocal(sums[GROUPS + j]) : 0.0f, mean = sums[2 * GROUPS + j] * weight;
        gradient -= means[j] * weight;
        curvature += square[j] * weight - (index == 0 ? mean * mean : 0.0f);
      }
#pragma unroll
      for (int m = 0; m < TILES; ++m) {
#pragma unroll
        for (int x = 0; x < 2; ++x) {
          const float low = scores[m][0][2 * j + x] * scale, high = scores[m][1][2 * j + x] * scale;
          const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
          pairs[j][m][x] = *reinterpret_cast<const unsigned*>(&both);
        }
      }
    }
  }
};
