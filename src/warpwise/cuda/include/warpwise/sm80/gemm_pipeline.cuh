// The cp.async pipeline of a block: k-tiles are copied to a ring of stages while earlier ones are multiplied.
#pragma once

#include <cuda_pipeline.h>

namespace warpwise {
namespace gemm {

// The k-tiles of BK from k_begin to k_end: copy(stage, k) issues the cp.async of the k-tile at k; multiply(stage, k) is
// called once all threads see its data. STAGES - 1 k-tiles are in flight.
template <int STAGES, int BK, class Copy, class Multiply>
__device__ __forceinline__ void copy_pipeline(int k_begin, int k_end, const Copy& copy, const Multiply& multiply) {
  int next = k_begin;
  const auto copy_next = [&](int stage) {
    if (next < k_end) {
      copy(stage, next);
      next += BK;
    }
    __pipeline_commit();
  };
#pragma unroll
  for (int stage = 0; stage < STAGES - 1; ++stage) copy_next(stage);
  int stage = 0;
  for (int k = k_begin; k < k_end; k += BK) {
    __pipeline_wait_prior(STAGES - 2);
    __syncthreads();
    copy_next(stage == 0 ? STAGES - 1 : stage - 1);
    multiply(stage, k);
    stage = stage + 1 == STAGES ? 0 : stage + 1;
  }
  __pipeline_wait_prior(0);
}

}  // namespace gemm
}  // namespace warpwise
