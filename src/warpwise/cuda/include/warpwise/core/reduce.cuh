// Reductions over a warp by shuffles, and over a block by one warp reduction for each warp and one over their results.
#pragma once

#include <warpwise/core/numeric.cuh>

namespace warpwise {

constexpr int kWarp = 32;
constexpr unsigned kFullMask = 0xffffffffu;

// An associative, commutative operation on Value: its identity, and the exchange of a Value between lanes.
struct Sum {
  using Value = float;
  static __device__ Value identity() { return 0.0f; }
  static __device__ Value combine(Value a, Value b) { return a + b; }
  static __device__ Value exchange(Value value, int distance) { return __shfl_xor_sync(kFullMask, value, distance); }
};

struct DoubleSum {
  using Value = double;
  static __device__ Value identity() { return 0.0; }
  static __device__ Value combine(Value a, Value b) { return a + b; }
  static __device__ Value exchange(Value value, int distance) { return __shfl_xor_sync(kFullMask, value, distance); }
};

struct Max {
  using Value = float;
  static __device__ Value identity() { return minus_infinity(); }
  static __device__ Value combine(Value a, Value b) { return fmaxf(a, b); }
  static __device__ Value exchange(Value value, int distance) { return __shfl_xor_sync(kFullMask, value, distance); }
};

// The two statistics of softmax over a set of x: m = max x and s = sum e^(x - m). Combining two sets rescales each sum
// to the common maximum. A sum whose maximum is the common one is not rescaled: e^(-inf - -inf) would be NaN.
struct MaxAndSum {
  struct Value {
    float max, sum;
  };
  static __device__ Value identity() { return {minus_infinity(), 0.0f}; }
  static __device__ float rescaled(Value value, float max) {
    return value.max == max ? value.sum : value.sum * expf(value.max - max);
  }
  static __device__ Value combine(Value a, Value b) {
    const float max = fmaxf(a.max, b.max);
    return {max, rescaled(a, max) + rescaled(b, max)};
  }
  // Adds one element x to the set. x = -inf adds nothing, also if the set has no finite element.
  static __device__ Value with(Value value, float x) {
    const float max = fmaxf(value.max, x);
    return {max, rescaled(value, max) + (x == minus_infinity() ? 0.0f : expf(x - max))};
  }
  static __device__ Value exchange(Value value, int distance) {
    return {__shfl_xor_sync(kFullMask, value.max, distance), __shfl_xor_sync(kFullMask, value.sum, distance)};
  }
};

// Reduces over groups of LANES adjacent lanes of a full warp; every lane gets the result. log2(LANES) butterfly steps.
template <class Operation, int LANES = kWarp>
__device__ inline typename Operation::Value warp_reduce(typename Operation::Value value) {
  static_assert(LANES <= kWarp && (LANES & (LANES - 1)) == 0, "a butterfly reduction needs a power of two");
#pragma unroll
  for (int distance = LANES / 2; distance > 0; distance /= 2) {
    value = Operation::combine(value, Operation::exchange(value, distance));
  }
  return value;
}

// The same for a number of lanes that is known only at run time.
template <class Operation>
__device__ inline typename Operation::Value warp_reduce(typename Operation::Value value, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    value = Operation::combine(value, Operation::exchange(value, distance));
  }
  return value;
}

// Reduces over a block of `warps` whole warps; every thread gets the result and must call this. `warp_values` is shared
// memory for one Value for each warp (at most 32), which the next call may reuse.
template <class Operation>
__device__ inline typename Operation::Value block_reduce(typename Operation::Value value,
                                                         typename Operation::Value* warp_values, int warps) {
  const int lane = threadIdx.x % kWarp;
  value = warp_reduce<Operation>(value);
  __syncthreads();  // an earlier call's reads of warp_values are complete
  if (lane == 0) warp_values[threadIdx.x / kWarp] = value;
  __syncthreads();
  return warp_reduce<Operation>(lane < warps ? warp_values[lane] : Operation::identity());
}

// The same for a block of THREADS.
template <class Operation, int THREADS>
__device__ inline typename Operation::Value block_reduce(typename Operation::Value value,
                                                         typename Operation::Value* warp_values) {
  static_assert(THREADS % kWarp == 0 && THREADS <= 1024, "at most 32 whole warps: one warp reduces their results");
  return block_reduce<Operation>(value, warp_values, THREADS / kWarp);
}

// Reduces over THREADS adjacent threads in x: a warp or a part of one, without a barrier, or a whole block.
template <class Operation, int THREADS>
__device__ inline typename Operation::Value team_reduce(typename Operation::Value value,
                                                        typename Operation::Value* warp_values) {
  if constexpr (THREADS <= kWarp) {
    return warp_reduce<Operation, THREADS>(value);
  } else {
    return block_reduce<Operation, THREADS>(value, warp_values);
  }
}

// Block size: the threads of a row; four warps if a row needs at most one warp, and kSingleBlock if it needs one
// thread.
constexpr int kWarpsOfTeams = 4, kSingleBlock = 512;

__host__ __device__ constexpr int block_of_teams(int threads) {
  return threads == 1 ? kSingleBlock : threads <= kWarp ? kWarpsOfTeams * kWarp : threads;
}

}  // namespace warpwise
