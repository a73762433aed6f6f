// Rows of 16-byte vectors that are adjacent in shared memory, which ldmatrix reads without bank conflicts.
#pragma once

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
