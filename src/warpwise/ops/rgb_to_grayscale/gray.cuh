// The grayscale value of one pixel, shared by the rungs: exact integer arithmetic for 8-bit images, else float or
// double.
#pragma once
#include <warpwise/core/pack.cuh>

template <typename T>
__device__ T gray(T red, T green, T blue) {
  using C = warpwise::Compute<T>;
  const C sum = C(0.2989) * static_cast<C>(red) + C(0.587) * static_cast<C>(green) + C(0.114) * static_cast<C>(blue);
  return static_cast<T>(sum);
}

// Rounds to the nearest integer, ties up. The weights sum to 9999 / 10000, so the result is at most 255.
template <>
__device__ inline unsigned char gray(unsigned char red, unsigned char green, unsigned char blue) {
  return static_cast<unsigned char>((2989u * red + 5870u * green + 1140u * blue + 5000u) / 10000u);
}
