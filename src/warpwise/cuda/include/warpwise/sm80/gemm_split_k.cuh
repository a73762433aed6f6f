// One block tile of C by the SPLIT blocks of a cluster, each with its part of K; SPLIT = 1 needs no cluster.
#pragma once

#include <warpwise/core/float4.cuh>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/cluster.cuh>

namespace warpwise {
namespace gemm {

// c (m, n), row-major, of type Out. Grid: tiles * SPLIT blocks. Dynamic shared memory: `split_k_bytes`. The blocks add
// the sums of all in the order of their ranks, so the result is deterministic. C_ALIGNED: n is a multiple of 4, and c
// is aligned to 4 elements.
template <class MainLoop, int SPLIT, bool C_ALIGNED, class T, class Out>
__device__ inline void gemm_split_k(const T* a, int a_stride, const T* b, int b_stride, Out* c, int m, int n, int k,
                                    int tiles_m) {
  constexpr int BM = MainLoop::BM, BN = MainLoop::BN, kPitch = BN + 8, kVectors = BN / 4;
  constexpr int kRows = MainLoop::kThreads / kVectors;  // rows of C that a block stores at once
  static_assert(MainLoop::kThreads % kVectors == 0, "a thread stores the same columns of every row");
  extern __shared__ __align__(1024) unsigned char shared[];
  const int tile = static_cast<int>(blockIdx.x) / SPLIT, rank = static_cast<int>(blockIdx.x) % SPLIT;
  const int first_row = tile % tiles_m * BM, first_column = tile / tiles_m * BN;
  const int k_tiles = (k + MainLoop::kTileK - 1) / MainLoop::kTileK;
  const int k_begin = static_cast<int>(static_cast<long long>(k_tiles) * rank / SPLIT) * MainLoop::kTileK;
  const int k_end = min(k, static_cast<int>(static_cast<long long>(k_tiles) * (rank + 1) / SPLIT) * MainLoop::kTileK);

  MainLoop loop;
  loop.run(shared, a, a_stride, b, b_stride, first_row, first_column, m, n, k_begin, k_end);
  __syncthreads();  // all stages have been read; the sums take their place
  float* const staged = reinterpret_cast<float*>(shared);
  loop.template stage_sums<kPitch>(staged);
  if constexpr (SPLIT > 1)
    sm90::cluster_sync();
  else
    __syncthreads();

  const int column = static_cast<int>(threadIdx.x) % kVectors * 4, left = n - first_column - column;
  for (int row = static_cast<int>(threadIdx.x) / kVectors * SPLIT + rank; row < BM; row += kRows * SPLIT) {
    float sum[4] = {};
    if constexpr (SPLIT > 1) {
      const unsigned address = shared_address(staged + row * kPitch + column);
      float values[SPLIT][4];
#pragma unroll
      for (int peer = 0; peer < SPLIT; ++peer) sm90::ld_shared_cluster_v4(values[peer], address, peer);
#pragma unroll
      for (int peer = 0; peer < SPLIT; ++peer) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[e] += values[peer][e];
      }
    } else {
      const Float4 value = *reinterpret_cast<const Float4*>(staged + row * kPitch + column);
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[e] = value.at[e];
    }
    if (first_row + row < m && left > 0)
      store4<C_ALIGNED>(c + static_cast<long long>(first_row + row) * n + first_column + column, sum, left);
  }
  if constexpr (SPLIT > 1) sm90::cluster_sync();  // a block must not exit while others may read its sums
}

}  // namespace gemm
}  // namespace warpwise
