// Vectors of up to 16 bytes that one instruction moves, pairs of 2-byte elements, and the type in which T is
// accumulated.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace warpwise {

template <typename T, int BYTES = 16>
struct alignas(BYTES) Pack {
  static constexpr int size = BYTES / sizeof(T);
  T at[size];
};

template <int BYTES = 16, typename T>
__device__ const Pack<T, BYTES>* packs(const T* pointer) {
  return reinterpret_cast<const Pack<T, BYTES>*>(pointer);
}

template <int BYTES = 16, typename T>
__device__ Pack<T, BYTES>* packs(T* pointer) {
  return reinterpret_cast<Pack<T, BYTES>*>(pointer);
}

// True if every pointer may be read as packs: an access of BYTES needs an address divisible by BYTES.
template <int BYTES = 16, typename... T>
__device__ bool aligned(const T*... pointers) {
  return ((reinterpret_cast<unsigned long long>(pointers) | ...) & (BYTES - 1)) == 0;
}

// Two floats, rounded to 2 bytes each, in a word; and the two floats of a word.
__device__ inline unsigned pack(float low, float high, __nv_bfloat16) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}
__device__ inline unsigned pack(float low, float high, __half) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}
__device__ inline float2 unpack(unsigned pair, __nv_bfloat16) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pair));
}
__device__ inline float2 unpack(unsigned pair, __half) {
  return __half22float2(*reinterpret_cast<const __half2*>(&pair));
}

template <typename T>
struct ComputeType {
  using type = T;
};
template <>
struct ComputeType<__half> {
  using type = float;
};
template <>
struct ComputeType<__nv_bfloat16> {
  using type = float;
};

// float for 2-byte floating-point types, else T.
template <typename T>
using Compute = typename ComputeType<T>::type;

// Index of this thread in a one-dimensional grid, and the number of threads.
__device__ inline long long global_thread() { return static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline long long global_threads() { return static_cast<long long>(gridDim.x) * blockDim.x; }

}  // namespace warpwise
