// What every blur kernel shares: reflection at borders, and the arithmetic of a pixel type.
#pragma once
#include <warpwise/core/pack.cuh>

// Position i of an axis of n pixels, reflected about the first and the last; -n < i < 2 n - 1.
__device__ inline int reflected(int i, int n) {
  const int positive = i < 0 ? -i : i;
  return positive < n ? positive : 2 * (n - 1) - positive;
}

// Floating point: weights sum to 1. Half types are summed in float.
template <typename T>
struct Arithmetic {
  using Weight = warpwise::Compute<T>;
  using Sum = Weight;
  static __device__ T finish(Sum sum) { return static_cast<T>(sum); }
};

// 8-bit pixels: each window's weights sum to 2^12, so both make at most 255 * 2^24, exact in 32 unsigned bits.
template <>
struct Arithmetic<unsigned char> {
  using Weight = int;
  using Sum = unsigned;
  static __device__ unsigned char finish(Sum sum) { return static_cast<unsigned char>((sum + (1u << 23)) >> 24); }
};
