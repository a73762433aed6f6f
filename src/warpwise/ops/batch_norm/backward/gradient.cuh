// The gradient of a channel's input, dx = a dy + b (x - mean) + c, from the sums of dy and of dy h.
#pragma once

#include <warpwise/core/channel.cuh>
#include <warpwise/core/numeric.cuh>
#include <warpwise/core/words.cuh>

// VECTOR elements of the gradient, zeros where it is null, and of the input.
template <class T, int VECTOR>
struct Pair {
  static constexpr int kBytes = sizeof(T) * VECTOR;
  warpwise::Words<T, kBytes> dy, x;
  __device__ float gradient(int e) const { return warpwise::to_float(warpwise::elements<T>(dy).at[e]); }
  __device__ float input(int e) const { return warpwise::to_float(warpwise::elements<T>(x).at[e]); }
};

template <class T, int VECTOR>
__device__ inline Pair<T, VECTOR> read_pair(const T* dy, const T* x, long long offset) {
  Pair<T, VECTOR> pair = {};
  if (dy) pair.dy = warpwise::words_at<sizeof(T) * VECTOR>(dy + offset);
  pair.x = warpwise::words_at<sizeof(T) * VECTOR>(x + offset);
  return pair;
}

// The same of a channel that is read by vectors of core/channel.cuh.
template <class T, int VECTOR, bool SHIFTED>
__device__ inline Pair<T, VECTOR> read_channel_pair(const T* dy, const T* x, long long offset, long long total) {
  Pair<T, VECTOR> pair = {};
  if (dy) pair.dy = warpwise::read_words<VECTOR, SHIFTED>(dy, offset, total);
  pair.x = warpwise::read_words<VECTOR, SHIFTED>(x, offset, total);
  return pair;
}

struct Line {
  float a, b, c, mean;

  // dmean, dvar, weight: (channels) or null; sum and dot: of dy and of dy h; `count` values of a channel.
  template <class W>
  __device__ static Line of(int channel, float count, const float* dmean, const float* dvar, const W* weight,
                            const float* mean, const float* var, float sum, float dot, float eps) {
    const float inverse = 1.0f / count, rstd = rsqrtf(var[channel] + eps);
    const float a = rstd * (weight ? warpwise::to_float(weight[channel]) : 1.0f);
    const float b = (2.0f * (dvar ? dvar[channel] : 0.0f) - a * rstd * dot) * inverse;
    const float c = ((dmean ? dmean[channel] : 0.0f) - a * sum) * inverse;
    return {a, b, c, mean[channel]};
  }
  __device__ float at(float dy, float x) const { return a * dy + b * (x - mean) + c; }
};

// Adds the elements of a vector inside the channel to the sums of dy and of dy h, h = (x - mean) * rstd.
template <class T, int VECTOR>
__device__ inline void add_gradient(const Pair<T, VECTOR>& pair, warpwise::Inside inside, float mean, float rstd,
                                    float& sum, float& dot) {
#pragma unroll
  for (int e = 0; e < VECTOR; ++e) {
    const float g = inside(e) ? pair.gradient(e) : 0.0f;
    sum += g;
    dot += inside(e) ? g * (pair.input(e) - mean) * rstd : 0.0f;
  }
}

// Stores the gradient of the input for the elements of a vector inside the channel.
template <int VECTOR, bool SHIFTED, class T>
__device__ inline void store_gradient(T* dx, long long offset, warpwise::Inside inside, const Pair<T, VECTOR>& pair,
                                      const Line& line) {
  warpwise::Elements<T, VECTOR> result;
#pragma unroll
  for (int e = 0; e < VECTOR; ++e) result.at[e] = warpwise::from_float<T>(line.at(pair.gradient(e), pair.input(e)));
  warpwise::store_vector<VECTOR, SHIFTED>(dx, offset, inside, result);
}

// sums: (channels, 2), dw, db: (channels); each may be null.
template <class W>
__device__ inline void store_sums(float* sums, W* dw, W* db, int channel, float sum, float dot) {
  if (sums) {
    sums[2 * channel] = sum;
    sums[2 * channel + 1] = dot;
  }
  if (dw) dw[channel] = warpwise::from_float<W>(dot);
  if (db) db[channel] = warpwise::from_float<W>(sum);
}
