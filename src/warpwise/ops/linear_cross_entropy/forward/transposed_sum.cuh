// Sums over a warp of several values of each lane, by an exchange of halves.
#pragma once

#include <warpwise/core/reduce.cuh>

namespace warpwise {

// The sum over LANES adjacent lanes of values[l * COUNT / LANES], l the lane's index among them. A step halves the
// values: a lane keeps one half, adds that half of its partner, and sends the other. 16 values take 16 shuffles, where
// 16 reductions take 80. The recursion keeps the indices constant, and so the values in registers.
template <int COUNT, int LANES = kWarp>
__device__ inline float transposed_sum(const float (&values)[COUNT]) {
  static_assert(COUNT <= LANES && (COUNT & (COUNT - 1)) == 0, "halves of a power of two");
  if constexpr (COUNT == 1) {
    return warp_reduce<Sum, LANES>(values[0]);
  } else {
    constexpr int kHalf = COUNT / 2;
    const bool upper = threadIdx.x & (LANES / 2);
    float halves[kHalf];
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const float kept = upper ? values[kHalf + i] : values[i], sent = upper ? values[i] : values[kHalf + i];
      halves[i] = kept + __shfl_xor_sync(kFullMask, sent, LANES / 2);
    }
    return transposed_sum<kHalf, LANES / 2>(halves);
  }
}

}  // namespace warpwise
