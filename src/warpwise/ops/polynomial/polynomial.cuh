// x² + x + 1 and its gradient for one element, rounded once.
#pragma once
#include <warpwise/core/pack.cuh>

template <typename T>
__device__ T value(T element) {
  using C = warpwise::Compute<T>;
  const C x = static_cast<C>(element);
  return static_cast<T>(x * x + x + C(1));
}

template <typename T>
__device__ T gradient(T grad, T element) {
  using C = warpwise::Compute<T>;
  return static_cast<T>(static_cast<C>(grad) * (C(2) * static_cast<C>(element) + C(1)));
}
