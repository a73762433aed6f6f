// Rows of 16-byte vectors that are adjacent in shared memory, which ldmatrix reads without bank conflicts.
#pragma once

#include <cuda_bf16.h>

#include <warpwise/core/float4.cuh>

// Vector c of row r is at place c ^ (r % 8 / (8 / kSpan)) of the row, so that one vector of eight adjacent rows is in
// all banks. place(r, c) is the byte of this vector in a tile, and moved(place(r, c), d), c < kSpan, that of vector
// c + d, where c ^ d = c + d. A copy by cp.async to rows with gaps takes up to six times as many wavefronts.
template <int VECTORS>
struct AdjacentRows {
  static constexpr int kSpan = VECTORS % 8 == 0 ? 8 : VECTORS % 4 == 0 ? 4 : VECTORS % 2 == 0 ? 2 : 1;
  static __device__ unsigned place(int row, int vector) {
    return 16 * (row * VECTORS + (vector ^ (row % 8 / (8 / kSpan))));
  }
  static __device__ unsigned moved(unsigned place, int d) {
    return (place ^ 16 * (d % kSpan)) + 16 * (d / kSpan * kSpan);
  }
};

// Part e of two coefficients, each the sum of two numbers of bfloat16, as a word: `second` in the upper half.
__device__ inline float coefficient_part(int e, float first, float second) {
  const auto large = __floats2bfloat162_rn(first, second);
  const auto rest = __floats2bfloat162_rn(first - __low2float(large), second - __high2float(large));
  const auto of = e == 0 ? large : rest;
  return __uint_as_float(*reinterpret_cast<const unsigned*>(&of));
}

// Eight coefficients, of which each part is four words.
struct EightCoefficients {
  float at[8];

  __device__ warpwise::Float4 part(int e, float sharpness) const {
    warpwise::Float4 words;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      words.at[i] = coefficient_part(e, sharpness * at[2 * i], sharpness * at[2 * i + 1]);
    }
    return words;
  }
};

// A lane's fragment of coefficients: both parts of columns 0 and 1, and of columns 8 and 9.
__device__ inline warpwise::Float4 coefficient_parts(const warpwise::Float4& values, float sharpness) {
  warpwise::Float4 parts;
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    const float first = sharpness * values.at[2 * e], second = sharpness * values.at[2 * e + 1];
    parts.at[e] = coefficient_part(0, first, second);
    parts.at[2 + e] = coefficient_part(1, first, second);
  }
  return parts;
}
