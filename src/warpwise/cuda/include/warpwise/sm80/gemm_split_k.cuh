// The SPLIT blocks of a cluster compute one block tile of C, each over its part of K; SPLIT = 1 needs no cluster.
#pragma once

#include <warpwise/core/float4.cuh>
#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm80/gemm_3xtf32.cuh>
#include <warpwise/sm80/gemm_k_groups.cuh>
#include <warpwise/sm80/gemm_mma.cuh>
#include <warpwise/sm80/gemm_simt.cuh>
#include <warpwise/sm80/gemm_store.cuh>
#include <warpwise/sm90/cluster.cuh>

// The attribute of a kernel with clusters of `blocks` blocks; before sm_90 there is one block for each tile.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define WARPWISE_CLUSTER(blocks) __cluster_dims__(blocks, 1, 1)
#else
#define WARPWISE_CLUSTER(blocks)
#endif

namespace warpwise {
namespace gemm {

// a: (m, k), b: (k, n), with leading dimensions a_stride and b_stride. `store` is an epilogue of gemm_store.cuh.
// grid.x: tiles * SPLIT blocks. Dynamic shared memory: the larger of the stages and of the output of stage_sums, BM *
// (BN + 8) floats or more, which reuses their memory. Each block adds the sums of all blocks in the order of their
// ranks, so the result is deterministic.
template <class MainLoop, int SPLIT, class T, class Epilogue>
__device__ inline void gemm_split_k(const T* a, int a_stride, const T* b, int b_stride, int m, int n, int k,
                                    int tiles_m, const Epilogue& store) {
  constexpr int BM = MainLoop::BM, BN = MainLoop::BN, kPitch = BN + 8, kVectors = BN / 4;
  constexpr int kRows = MainLoop::kThreads / kVectors;  // rows of C that a block stores at once
  static_assert(MainLoop::kThreads % kVectors == 0, "a thread stores the same columns of every row");
  extern __shared__ __align__(1024) unsigned char shared[];
  const int tile = static_cast<int>(blockIdx.x) / SPLIT, rank = static_cast<int>(blockIdx.x) % SPLIT;
  const int first_row = tile % tiles_m * BM, first_column = tile / tiles_m * BN;
  const int k_tiles = (k + MainLoop::kTileK - 1) / MainLoop::kTileK;
  const int k_begin = static_cast<int>(static_cast<long long>(k_tiles) * rank / SPLIT) * MainLoop::kTileK;
  const int k_end = min(k, static_cast<int>(static_cast<long long>(k_tiles) * (rank + 1) / SPLIT) * MainLoop::kTileK);

  wait_for_previous_kernel();
  MainLoop loop;
  loop.run(shared, a, a_stride, b, b_stride, first_row, first_column, m, n, k_begin, k_end);
  __syncthreads();  // all stages have been read; the sums reuse their memory
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
    if (first_row + row < m && left > 0) store(sum, first_row + row, first_column + column, left);
  }
  if constexpr (SPLIT > 1) sm90::cluster_sync();  // a block must not exit while others may read its sums
}

// a: (batch, m, k), b: (batch, k, n), c: (batch, m, n), c contiguous; matrices of a and b are a_batch and b_batch
// elements apart, with leading dimensions a_stride and b_stride. Loop: a main loop of these layouts and
// alignments. C_ALIGNED: n is a multiple of 4. SPLIT: blocks of a cluster. Grid: (SPLIT blocks per tile, batch).
template <class Loop, bool C_ALIGNED, int SPLIT>
__global__ void __launch_bounds__(Loop::kThreads) WARPWISE_CLUSTER(SPLIT)
    cluster_split_k(const typename Loop::Element* __restrict__ a, int a_stride, long long a_batch,
                    const typename Loop::Element* __restrict__ b, int b_stride, long long b_batch,
                    typename Loop::Element* __restrict__ c, int m, int n, int k, int tiles_m) {
  const long long matrix = blockIdx.y;
  const Store<typename Loop::Element, C_ALIGNED> store = {c + matrix * m * n, n};
  gemm_split_k<Loop, SPLIT>(a + matrix * a_batch, a_stride, b + matrix * b_batch, b_stride, m, n, k, tiles_m, store);
}

}  // namespace gemm
}  // namespace warpwise
