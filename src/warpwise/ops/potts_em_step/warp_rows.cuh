// Rows of a warp's tile: copies of columns ahead, stores of q, and the reciprocal of its softmax.
#pragma once

#include <warpwise/core/float4.cuh>

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

// A lane's OWN domains of a row of q, as they are loaded.
template <class Q, int OWN>
struct RowOf {
  warpwise::Vector<float, OWN> values;

  __device__ float operator[](int i) const { return values.at[i]; }

  template <bool VECTOR>
  __device__ static RowOf load(const float* from, int valid) {
    static_assert(OWN == 4, "a load has 16 bytes");
    return {warpwise::load4<VECTOR>(from, valid)};
  }
};

// Two domains in each word. VECTOR: elements past the row's end are its padding, whose values are not used.
template <int OWN>
struct RowOf<__nv_bfloat16, OWN> {
  warpwise::Vector<unsigned, OWN / 2> words;

  __device__ float operator[](int i) const {
    const unsigned word = words.at[i / 2];
    return __uint_as_float(i % 2 ? word & 0xffff0000u : word << 16);
  }

  template <bool VECTOR>
  __device__ static RowOf load(const __nv_bfloat16* from, int valid) {
    RowOf row = {};
    if (VECTOR) {
      if (valid > 0) row.words = *reinterpret_cast<const warpwise::Vector<unsigned, OWN / 2>*>(from);
    } else {
      const auto bits = reinterpret_cast<const unsigned short*>(from);
#pragma unroll
      for (int i = 0; i < OWN; ++i) {
        if (i < valid) row.words.at[i / 2] |= static_cast<unsigned>(bits[i]) << (i % 2 * 16);
      }
    }
    return row;
  }
};

// The first `valid` of a lane's domains; VECTOR: all of them.
template <bool VECTOR, int OWN>
__device__ inline void store_own(float* to, const float (&from)[OWN], int valid) {
  if (VECTOR) {
#pragma unroll
    for (int i = 0; i < OWN; i += 4) {
      const float4 four = make_float4(from[i], from[i + 1], from[i + 2], from[i + 3]);
      if (valid > 0) __stcg(reinterpret_cast<float4*>(to + i), four);
    }
  } else {
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
      if (i < valid) to[i] = from[i];
    }
  }
}

// The same, rounded to nearest. VECTOR: `to` is aligned to OWN elements; all of them exist, or some.
template <bool VECTOR, int OWN>
__device__ inline void store_own(__nv_bfloat16* to, const float (&from)[OWN], int valid) {
  warpwise::Vector<unsigned, OWN / 2> words;
#pragma unroll
  for (int i = 0; i < OWN / 2; ++i) words.at[i] = warpwise::pack(from[2 * i], from[2 * i + 1], __nv_bfloat16{});
  if (VECTOR && valid >= OWN) {
    if constexpr (OWN == 8) {
      __stcg(reinterpret_cast<uint4*>(to), make_uint4(words.at[0], words.at[1], words.at[2], words.at[3]));
    } else {
      __stcg(reinterpret_cast<uint2*>(to), make_uint2(words.at[0], words.at[1]));
    }
  } else if (VECTOR) {
#pragma unroll
    for (int i = 0; i < OWN / 2; ++i) {
      if (2 * i + 1 < valid) {
        reinterpret_cast<unsigned*>(to)[i] = words.at[i];
      } else if (2 * i < valid) {
        reinterpret_cast<unsigned short*>(to)[2 * i] = static_cast<unsigned short>(words.at[i]);
      }
    }
  } else {
    const auto bits = reinterpret_cast<unsigned short*>(to);
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
      if (i < valid) bits[i] = static_cast<unsigned short>(words.at[i / 2] >> (i % 2 * 16));
    }
  }
}
