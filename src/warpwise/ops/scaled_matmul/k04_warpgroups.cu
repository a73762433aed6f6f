// fp8 wgmma with float32 sums: one consumer warpgroup multiplies while the other one adds.
//
// wgmma accumulates fp8 products with 13 bits after the binary point, so a long sum must not stay in its accumulators:
// after every k-tile of 128 they are added to sums in other registers. The 128 x 256 sums take half of the register
// file, which leaves a quarter for accumulators. A warpgroup therefore multiplies one half of its 64 x 256 tile,
// waits, and adds, 64 additions per thread, which take a quarter of the time of the other warpgroup's wgmma.
//
// As for 2-byte types, a producer warpgroup loads k-tiles by TMA, the two blocks of a cluster compute vertically
// adjacent tiles and share B by multicast, and blocks are persistent.

#include "fp8_gemm.cuh"

constexpr int kColumns = 256, kStages = 4;

// a: (m, k), b: (n, k), tensor maps with boxes of 128 x 128; c: (m, n), of 64 x 64. Scales: one each, or (m,) and (n,)
// if ROWWISE. rows: C if not BY_TMA. pairs, columns, group: of TileScheduler; hints: policies.cuh. Grid: a multiple of
// kCluster, at most one block per SM. Dynamic shared memory: 1 KiB for alignment + kStages * (128 + kColumns) * 128 +
// 4 * kBytesC + 16 * kStages bytes.
template <class A, class B, bool ROWWISE, bool BY_TMA>
__global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(kCluster, 1, 1)
    scaled_matmul_warpgroups(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
                             const __grid_constant__ sm90::TensorMap c, __nv_bfloat16* rows,
                             const float* __restrict__ scale_a, const float* __restrict__ scale_b, int m, int n, int k,
                             int pairs, int columns, int group, int hints) {
  extern __shared__ unsigned char raw[];
  const SharedStorage<kColumns, kStages> storage(raw);
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
      prefetch_scales(scale_a, scale_b, ROWWISE, tile.row * kRows, tile.column * kColumns, kRows, kColumns, m, n,
                      thread);
      float sums[kColumns / 64][32] = {};
      for (int s = 0; s < k_tiles; ++s, state.next(kStages)) {
        storage.pipeline.consumer_wait(state);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float accumulator[64];
          wgmma_k_tile<A, B>(accumulator, storage.stage_a(state.index) + consumer * 64 * 128,
                             storage.stage_b(state.index) + half * 128 * 128, false);
          sm90::wgmma_wait_group<0>();
          sm90::warpgroup_fence_operand(accumulator);
          if (half == 1 && thread < kCluster) storage.pipeline.consumer_release(state.index, thread);
#pragma unroll
          for (int e = 0; e < 64; ++e) sums[half * 2 + e / 32][e % 32] += accumulator[e];
        }
      }
      const Target<BY_TMA> target{&c, {rows, m, n}};
      store_tile<ROWWISE>(sums, target, scale_a, scale_b, tile.row * kRows + consumer * 64, tile.column * kColumns, m,
                          n, storage.c + consumer * 2 * kBytesC, box, consumer);
    }
    if (BY_TMA && thread == 0) sm90::tma_store_wait();
  }
  sm90::cluster_sync();  // a block must not exit while the other may arrive at its barriers
}
