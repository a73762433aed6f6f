// One k-tile per accumulation, and two wgmma of 64 columns in flight: one runs while the other is added.
//
// In k04 the tensor cores have no work from a warpgroup from its wait until its additions are done, and the other
// warpgroup's 256 clocks of wgmma do not quite cover that. Here a wgmma computes 64 columns, and the next one starts
// before the warpgroup waits for the previous one. With A in shared memory, wgmma of 64 columns would read A four
// times as often, as much traffic again as that of B, which exceeds its bandwidth: the 64 x 128 elements of A are
// therefore loaded to registers, 16 per thread, once per k-tile.

#include "fp8_gemm.cuh"

// a: (m, k), tensor map with boxes of 128 x 128; b: (n, k), of COLUMNS / 2 x 128; c: (m, n), of 64 x 64. Scales: one
// each, or (m,) and (n,) if ROWWISE. rows: C if not BY_TMA. pairs, columns, group: of TileScheduler; hints:
// policies.cuh. Grid: a multiple of kCluster, at most one block per SM. Dynamic shared memory: 1 KiB for alignment +
// STAGES * (128 + COLUMNS) * 128 + 4 * kBytesC + 16 * STAGES bytes.
template <class A, class B, bool ROWWISE, bool BY_TMA, int COLUMNS, int STAGES>
__global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(kCluster, 1, 1)
    scaled_matmul_two_wgmma_in_flight(const __grid_constant__ sm90::TensorMap a,
                                      const __grid_constant__ sm90::TensorMap b,
                                      const __grid_constant__ sm90::TensorMap c, __nv_bfloat16* rows,
                                      const float* __restrict__ scale_a, const float* __restrict__ scale_b, int m,
                                      int n, int k, int pairs, int columns, int group, int hints) {
  constexpr int kSubtiles = COLUMNS / 64;
  static_assert(kSubtiles % 2 == 0, "subtiles alternate between two sets of accumulators");
  extern __shared__ unsigned char raw[];
  const SharedStorage<COLUMNS, STAGES> storage(raw);
  const int rank = static_cast<int>(sm90::cluster_ctarank()), k_tiles = (k + kTileK - 1) / kTileK;
  const TileScheduler scheduler{pairs, columns, group};

  if (threadIdx.x < kWarpgroupThreads) {
    sm90::warpgroup_reg_dealloc<40>();
    if (threadIdx.x == 0) produce(storage, a, b, scheduler, k_tiles, rank, hints);
  } else {
    sm90::warpgroup_reg_alloc<232>();
    const int consumer = threadIdx.x / kWarpgroupThreads - 1, thread = threadIdx.x % kWarpgroupThreads,
              lane = thread % 32;
    sm90::PipelineState state;
    int box = 0;
    for (int tile_index = blockIdx.x / kCluster; tile_index < scheduler.tiles(); tile_index += gridDim.x / kCluster) {
      const Tile tile = scheduler.at(tile_index, rank);
      prefetch_scales(scale_a, scale_b, ROWWISE, tile.row * kRows, tile.column * COLUMNS, kRows, COLUMNS, m, n, thread);
      float sums[kSubtiles][32] = {}, accumulators[2][32];
      unsigned a_fragments[kTileK / 32][4];  // this thread's bytes of A's k-tile
      const auto load_a = [&] {
        storage.pipeline.consumer_wait(state);
        const int row = consumer * 64 + thread / 32 * 16 + lane % 16;
        const unsigned from = storage.stage_a(state.index) + row * 128;
#pragma unroll
        for (int i = 0; i < kTileK / 32; ++i)
          warpwise::ldmatrix_x4(a_fragments[i], from + ((i * 2 + lane / 16) ^ (row & 7)) * 16);
      };
      const auto start_wgmma = [&](int subtile) {
        sm90::wgmma_fence();
#pragma unroll
        for (int i = 0; i < kTileK / 32; ++i) {
          const unsigned from = storage.stage_b(state.index) + subtile * 64 * 128 + i * 32;
          sm90::wgmma_rs<sm90::Pair<A, B>>(accumulators[subtile % 2], a_fragments[i],
                                           sm90::matrix_descriptor(from, 16, 1024), i > 0);
        }
        sm90::wgmma_commit_group();
      };
      const auto add = [&](int subtile) {
#pragma unroll
        for (int e = 0; e < 32; ++e) sums[subtile][e] += accumulators[subtile % 2][e];
      };

      load_a();
      start_wgmma(0);
      for (int s = 0;;) {
#pragma unroll
        for (int subtile = 1; subtile < kSubtiles; ++subtile) {
          start_wgmma(subtile);
          sm90::wgmma_wait_group<1>();
          sm90::warpgroup_fence_operand(accumulators[(subtile - 1) % 2]);
          add(subtile - 1);
        }
        sm90::wgmma_wait_group<0>();
        sm90::warpgroup_fence_operand(accumulators[1]);
        if (thread < kCluster) storage.pipeline.consumer_release(state.index, thread);
        state.next(STAGES);
        if (++s == k_tiles) break;
        load_a();
        start_wgmma(0);
        add(kSubtiles - 1);  // during the first wgmma of the next k-tile
      }
      add(kSubtiles - 1);
      const Target<BY_TMA> target{&c, {rows, m, n}};
      store_tile<ROWWISE>(sums, target, scale_a, scale_b, tile.row * kRows + consumer * 64, tile.column * COLUMNS, m, n,
                          storage.c + consumer * 2 * kBytesC, box, consumer);
    }
    if (BY_TMA && thread == 0) sm90::tma_store_wait();
  }
  sm90::cluster_sync();  // a block must not exit while the other may arrive at its barriers
}
