// The sums of the prior that k04, k06, k07, k09 and k10 need for the derivatives for beta, where a point's domains are
// in several lanes.
#pragma once

#include "colours.cuh"
#include "fragments.cuh"

// If a sum of powers of two is between this and its inverse, terms that are flushed to zero do not count.
constexpr float kSafe = 1e18f;

// Of P points, whose domains are in the lanes that differ in the bits BEGIN to END / 2: `sums` over all lanes of the
// powers of the posterior, of priors p = 2^(strength n + field - shift) and of p n; the lane's parts of the sums of
// p n, `means`, and of p n^2, `squares`. If a sum of p is not safe in any lane of the warp, computes the sums of the
// priors again, with the largest exponent as the shift instead of 0.
template <int BEGIN, int END, int P, class Update, class Around>
__device__ inline void shift_unsafe(const Update& update, const Around (&around)[P], const float* const (&external)[P],
                                    float (&sums)[3 * P], float (&means)[P], float (&squares)[P]) {
  bool safe = true;
#pragma unroll
  for (int j = 0; j < P; ++j) safe = safe && sums[P + j] > 1.0f / kSafe && sums[P + j] < kSafe;
  if (__any_sync(kAllLanes, !safe)) {
    float shift[P], again[2 * P] = {};
#pragma unroll
    for (int j = 0; j < P; ++j) shift[j] = update.highest_prior(around[j], external[j]);
    lanes_max<BEGIN, END>(shift);
#pragma unroll
    for (int j = 0; j < P; ++j) {
      squares[j] = 0.0f;
      update.add_prior(around[j], external[j], shift[j], again[j], again[P + j], squares[j]);
      means[j] = again[P + j];
    }
    lanes_sum<BEGIN, END>(again);
#pragma unroll
    for (int i = 0; i < 2 * P; ++i) sums[P + i] = again[i];
  }
}
