// Reductions over a warp by shuffles and over a block by one shuffle round a warp and one over the warps' results.
#pragma once

#include <warpwise/numeric.cuh>

namespace warpwise {

constexpr int kWarp = 32;
constexpr unsigned kFullMask = 0xffffffffu;

// An associative, commutative operation on Value with its identity, and how a Value crosses lanes.
struct Sum {
  using Value = float;
  static __device__ Value identity() { return 0.0f; }
  static __device__ Value combine(Value a, Value b) { return a + b; }
  static __device__ Value exchange(Value value, int distance) { return __shfl_xor_sync(kFullMask, value, distance); }
};

struct Max {
  using Value = float;
  static __device__ Value identity() { return minus_infinity(); }
  static __device__ Value combine(Value a, Value b) { return fmaxf(a, b); }
  static __device__ Value exchange(Value value, int distance) { return __shfl_xor_sync(kFullMask, value, distance); }
};

// Softmax's two statistics of a set of x as one value: m = max x and s = sum e^(x - m). Joining two sets rescales each
// sum to the common maximum. Equal maxima are kept as they are: e^(-inf - -inf) of two sets without finite x is NaN.
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
  // The set with one more element x. An x of -inf adds nothing, also to a set that holds nothing finite yet.
  static __device__ Value with(Value value, float x) {
    const float max = fmaxf(value.max, x);
    return {max, rescaled(value, max) + (x == minus_infinity() ? 0.0f : expf(x - max))};
  }
  static __device__ Value exchange(Value value, int distance) {
    return {__shfl_xor_sync(kFullMask, value.max, distance), __shfl_xor_sync(kFullMask, value.sum, distance)};
  }
};

// The reduction over each LANES neighbours of a full warp, in every lane: log2(LANES) butterfly steps in registers.
template <class Operation, int LANES = kWarp>
__device__ inline typename Operation::Value warp_reduce(typename Operation::Value value) {
  static_assert(LANES <= kWarp && (LANES & (LANES - 1)) == 0, "a butterfly joins powers of two");
#pragma unroll
  for (int distance = LANES / 2; distance > 0; distance /= 2) {
    value = Operation::combine(value, Operation::exchange(value, distance));
  }
  return value;
}

// The reduction over a block of THREADS, in every thread. `of_warp` is shared memory for one Value a warp (32 suffice).
// Every thread must call it; it may be called again at once with the same `of_warp`.
template <class Operation, int THREADS>
__device__ inline typename Operation::Value block_reduce(typename Operation::Value value,
                                                         typename Operation::Value* of_warp) {
  static_assert(THREADS % kWarp == 0 && THREADS <= 1024, "whole warps, and no more of them than a warp has lanes");
  const int lane = threadIdx.x % kWarp;
  value = warp_reduce<Operation>(value);
  __syncthreads();  // what an earlier call left in of_warp has been read
  if (lane == 0) of_warp[threadIdx.x / kWarp] = value;
  __syncthreads();
  return warp_reduce<Operation>(lane < THREADS / kWarp ? of_warp[lane] : Operation::identity());
}

// The reduction over THREADS neighbours in x: a warp or a part of one, without a barrier, or a whole block.
template <class Operation, int THREADS>
__device__ inline typename Operation::Value team_reduce(typename Operation::Value value,
                                                        typename Operation::Value* of_warp) {
  if constexpr (THREADS <= kWarp) {
    return warp_reduce<Operation, THREADS>(value);
  } else {
    return block_reduce<Operation, THREADS>(value, of_warp);
  }
}

// A block's size: four warps if a row takes one of them or less, else the row's own threads.
constexpr int kWarpsOfTeams = 4;

__host__ __device__ constexpr int block_of_teams(int threads) {
  return threads <= kWarp ? kWarpsOfTeams * kWarp : threads;
}

}  // namespace warpwise
