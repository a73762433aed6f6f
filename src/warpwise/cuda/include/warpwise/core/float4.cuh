// Loads and stores of four adjacent elements of a matrix row as float32; elements past the row's end read as zero.
#pragma once

#include <warpwise/core/numeric.cuh>
#include <warpwise/core/vector.cuh>

namespace warpwise {

using Float4 = Vector<float, 4>;

// Only the first `valid` (0 to 4) elements at `from` exist; the others are zero. ALIGNED: `from` is aligned to
// 4 * sizeof(T) and the row's length is a multiple of 4, so that all four exist or none, and one load is used.
template <bool ALIGNED, class T>
__device__ inline Float4 load4(const T* from, int valid) {
  Float4 result = {0.0f, 0.0f, 0.0f, 0.0f};
  if (ALIGNED) {
    if (valid > 0) {
      const Vector<T, 4> loaded = *reinterpret_cast<const Vector<T, 4>*>(from);
#pragma unroll
      for (int e = 0; e < 4; ++e) result.at[e] = to_float(loaded.at[e]);
    }
  } else {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (e < valid) result.at[e] = to_float(from[e]);
    }
  }
  return result;
}

template <bool ALIGNED, class T>
__device__ inline void store4(T* to, const float* values, int valid) {
  if (ALIGNED) {
    if (valid > 0) {
      Vector<T, 4> rounded;
#pragma unroll
      for (int e = 0; e < 4; ++e) rounded.at[e] = from_float<T>(values[e]);
      *reinterpret_cast<Vector<T, 4>*>(to) = rounded;
    }
  } else {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (e < valid) to[e] = from_float<T>(values[e]);
    }
  }
}

}  // namespace warpwise
