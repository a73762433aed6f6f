// Rows of a warp's tile: copies of columns ahead, stores of q, and the reciprocal of its softmax.
#pragma once

#include "warp_plan.cuh"

// cp.async of from[i], i = FIRST, FIRST + 32, ... below COUNT and `total`, to word i + i / 8 from `to`. All offsets are
// in the instructions.
template <int FIRST, int COUNT>
__device__ inline void copy_words(unsigned to, const int* from, int total) {
  if (FIRST < total) {
    asm volatile("cp.async.ca.shared.global [%0 + %2], [%1 + %3], 4;" ::"r"(to), "l"(from),
                 "n"(4 * (FIRST + FIRST / 8)), "n"(4 * FIRST)
                 : "memory");
  }
  if constexpr (FIRST + 32 < COUNT) copy_words<FIRST + 32, COUNT>(to, from, total);
}

// If a sum of powers of two is between this and its inverse, terms that are flushed to zero do not count.
constexpr float kSafe = 1e18f;

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
