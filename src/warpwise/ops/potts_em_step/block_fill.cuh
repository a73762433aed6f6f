// How a block fills its shared memory at the start of k07 to k10.
#pragma once

#include <warpwise/core/float4.cuh>
#include <warpwise/core/numeric.cuh>

// Zeros of `count` floats, a multiple of four, at a multiple of 16 bytes.
template <int THREADS>
__device__ inline void fill_zeros(float* to, int count) {
  for (int i = threadIdx.x; i < count / 4; i += THREADS) reinterpret_cast<warpwise::Float4*>(to)[i] = {};
}

// store(i, load(i)) for each i below COUNT. load(i) is a Vector of floats; a thread loads up to 64 floats before it
// stores the first.
template <int COUNT, int THREADS, class Load, class Store>
__device__ inline void fill_in_batches(const Load& load, const Store& store) {
  using Values = decltype(load(0));
  constexpr int kOfThread = warpwise::cdiv(COUNT, THREADS);
  constexpr int kBatches = warpwise::cdiv(kOfThread * static_cast<int>(sizeof(Values)), 256);
  constexpr int kAtOnce = warpwise::cdiv(kOfThread, kBatches);
#pragma unroll 1
  for (int first = threadIdx.x; first < COUNT; first += kAtOnce * THREADS) {
    Values values[kAtOnce] = {};
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      if (first + j * THREADS < COUNT) values[j] = load(first + j * THREADS);
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      if (first + j * THREADS < COUNT) store(first + j * THREADS, values[j]);
    }
  }
}
