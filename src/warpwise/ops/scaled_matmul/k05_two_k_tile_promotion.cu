// Two k-tiles, 256 products, per accumulation in wgmma: half the additions, and more time to hide the wait.
//
// Between the last wgmma of a warpgroup and its next one are the wait, 64 additions per thread and the barrier of the
// next k-tile: about 300 clocks, more than the 256 of the other warpgroup's half tile (k04's main loop takes 15 to 23
// % more clocks than its wgmma). With two k-tiles these are 512. The truncation error of a partial sum grows by 2^0.7.

#include "fp8_gemm.cuh"

// a: (m, k), tensor map with boxes of 128 x 128; b: (n, k), of COLUMNS / 2 x 128; c: (m, n), of 64 x 64. Scales: one
// each, or (m,) and (n,) if ROWWISE. rows: C if not BY_TMA. pairs, columns, group: of TileScheduler; hints:
// policies.cuh. Grid: a multiple of kCluster, at most one block per SM. Dynamic shared memory: 1 KiB for alignment +
// STAGES * (128 + COLUMNS) * 128 + 4 * kBytesC + 16 * STAGES bytes.
template <class A, class B, bool ROWWISE, bool BY_TMA, int COLUMNS, int STAGES>
__global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(kCluster, 1, 1)
    scaled_matmul_two_k_tile_promotion(const __grid_constant__ sm90::TensorMap a,
                                       const __grid_constant__ sm90::TensorMap b,
                                       const __grid_constant__ sm90::TensorMap c, __nv_bfloat16* rows,
                                       const float* __restrict__ scale_a, const float* __restrict__ scale_b, int m,
                                       int n, int k, int pairs, int columns, int group, int hints) {
  constexpr int kHalves = COLUMNS / 128;
  extern __shared__ unsigned char raw[];
  if (threadIdx.x == 0) {
    sm90::prefetch_tensormap(&a);
    sm90::prefetch_tensormap(&b);
  }
  const SharedStorage<COLUMNS, STAGES> storage(raw);
  const int rank = static_cast<int>(sm90::cluster_ctarank()), k_tiles = (k + kTileK - 1) / kTileK;
  const TileScheduler scheduler{pairs, columns, group};

  if (threadIdx.x < kWarpgroupThreads) {
    sm90::warpgroup_reg_dealloc<40>();
    if (threadIdx.x == 0) produce(storage, a, b, scheduler, k_tiles, rank, hints);
  } else {
    sm90::warpgroup_reg_alloc<232>();
    const int consumer = threadIdx.x / kWarpgroupThreads - 1, thread = threadIdx.x % kWarpgroupThreads;
    sm90::PipelineState state;
    int box = 0;
    for (int tile_index = blockIdx.x / kCluster; tile_index < scheduler.tiles(); tile_index += gridDim.x / kCluster) {
      const Tile tile = scheduler.at(tile_index, rank);
      prefetch_scales(scale_a, scale_b, ROWWISE, tile.row * kRows, tile.column * COLUMNS, kRows, COLUMNS, m, n, thread);
      float sums[COLUMNS / 64][32] = {};
      for (int s = 0; s < k_tiles; s += 2) {
        const bool both = s + 1 < k_tiles;
        const sm90::PipelineState first_state = state;
        state.next(STAGES);
        const sm90::PipelineState second_state = state;
        storage.pipeline.consumer_wait(first_state);
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
          float accumulator[64];
          wgmma_k_tile<A, B>(accumulator, storage.stage_a(first_state.index) + consumer * 64 * 128,
                             storage.stage_b(first_state.index) + half * 128 * 128, false);
          if (both) {
            if (half == 0) storage.pipeline.consumer_wait(second_state);
            wgmma_k_tile<A, B>(accumulator, storage.stage_a(second_state.index) + consumer * 64 * 128,
                               storage.stage_b(second_state.index) + half * 128 * 128, true);
            if (half == kHalves - 1) {
              sm90::wgmma_wait_group<1>();
              if (thread < kCluster) storage.pipeline.consumer_release(first_state.index, thread);
            }
          }
          sm90::wgmma_wait_group<0>();
          sm90::warpgroup_fence_operand(accumulator);
          if (half == kHalves - 1 && thread < kCluster)
            storage.pipeline.consumer_release((both ? second_state : first_state).index, thread);
#pragma unroll
          for (int e = 0; e < 64; ++e) sums[half * 2 + e / 32][e % 32] += accumulator[e];
        }
        if (both) state.next(STAGES);
      }
      const Target<BY_TMA> target{&c, {rows, m, n}};
      store_tile<ROWWISE>(sums, target, scale_a, scale_b, tile.row * kRows + consumer * 64, tile.column * COLUMNS, m, n,
                          storage.c + consumer * 2 * kBytesC, box, consumer);
    }
    if (BY_TMA && thread == 0) sm90::tma_store_wait();
  }
  sm90::cluster_sync();  // a block must not exit while the other may arrive at its barriers
}
