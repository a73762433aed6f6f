// What k05 and k08 do with a vector of a channel: they add it to the shifted sums, and store it normalised.
#pragma once

#include <warpwise/core/channel.cuh>
#include <warpwise/core/words.cuh>

template <class T, int VECTOR>
using VectorOf = warpwise::Words<T, sizeof(T) * VECTOR>;

// Adds the elements inside the channel minus `origin`, and the squares of these differences.
template <class T, int VECTOR>
__device__ inline void add_shifted(const VectorOf<T, VECTOR>& values, warpwise::Inside inside, float origin, float& sum,
                                   float& squares) {
#pragma unroll
  for (int e = 0; e < VECTOR; ++e) {
    const float distance = warpwise::to_float(warpwise::elements<T>(values).at[e]) - origin,
                shifted = inside(e) ? distance : 0.0f;
    sum += shifted;
    squares += shifted * shifted;
  }
}

// y = (x - mean) * scale + shift for the elements inside the channel.
template <int VECTOR, bool SHIFTED, class T>
__device__ inline void store_normalised(T* y, long long offset, warpwise::Inside inside,
                                        const VectorOf<T, VECTOR>& values, float mean, float scale, float shift) {
  warpwise::Elements<T, VECTOR> result;
#pragma unroll
  for (int e = 0; e < VECTOR; ++e)
    result.at[e] =
        warpwise::from_float<T>((warpwise::to_float(warpwise::elements<T>(values).at[e]) - mean) * scale + shift);
  warpwise::store_vector<VECTOR, SHIFTED>(y, offset, inside, result);
}
