// The grayscale value of one pixel, for every rung: exact integers for 8-bit images, float or double otherwise.
#pragma once
#include <warpwise/core/pack.cuh>

template <typename T>
__device__ T gray(T red, T green, T blue) {
  using C = warpwise::Compute<T>;
  const C sum = C(0.2989) * static_cast<C>(red) + C(0.587) * static_cast<C>(green) + C(0.114) * static_cast<C>(blue);
  return static_cast<T>(sum);
}

// Nearest integer, ties up; at most 9999 * 255 / 10000 rounded, so it fits.
template <>
__device__ inline unsigned char gray(unsigned char red, unsigned char green, unsigned char blue) {
  return static_cast<unsigned char>((2989u * red + 5870u * green + 1140u * blue + 5000u) / 10000u);
}
