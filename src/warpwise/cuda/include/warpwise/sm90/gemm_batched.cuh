// Persistent warp-specialised GEMM for batches and groups of matrices of 2-byte types: the epilogue of a tile overlaps
// with the main loop of the next one, also across matrices. Tensor maps have the matrix as first dimension. Include
// cuda_bf16.h or cuda_fp16.h first.
#pragma once

#include <warpwise/sm90/gemm.cuh>

#include <warpwise/sm90/gemm_tma_3d.cuh>

namespace warpwise {
namespace gemm_batched {

namespace sm90 = warpwise::sm90;
using sm90::kBoxBytes, sm90::kWarpgroupThreads, sm90::kTileK, sm90::TensorMap;

// A tile: its position in its matrix, in tiles, and the z coordinates of the boxes of A, B and C.
struct Tile {
  int row, column, a, b, c;
};

// C = A B for each matrix of a batch. A: (.., m, k), or (.., k, m) if a_mn_major; B: (.., n, k), or (.., k, n) if
// b_mn_major; C: (.., m, n): tensor maps with boxes of 1 x 64 x 64. P: a GemmConfig with clusters of 1 x 1. Scheduler:
// `tiles()`, `at(tile)`, `k_tiles(tile)`, and `first_k(tile)`, the k of the first of these. STORE_AT_END: for few
// k-tiles; a tile is stored as a whole at its end, from one box per subtile, instead of subtile by subtile during the
// next tile's main loop, from P::boxes. Block: P::threads. Grid: any number of blocks, one per SM. Dynamic shared
// memory: 1 KiB for alignment, the stages, kBoxes boxes per consumer warpgroup and two barriers per stage.
template <class P, bool STORE_AT_END, class Scheduler>
__device__ inline void gemm(const TensorMap& a, const TensorMap& b, const TensorMap& c, const Scheduler& scheduler) {
  constexpr int kBoxes = STORE_AT_END ? P::subtiles : P::boxes;
  extern __shared__ unsigned char raw[];
  const sm90::GemmStorage<P, kBoxes> storage(raw);
  if (threadIdx.x == 0) {
    storage.init();
    sm90::fence_mbarrier_init();
  }
  __syncthreads();

  if (threadIdx.x < kWarpgroupThreads) {
    if constexpr (P::groups > 1) sm90::warpgroup_reg_dealloc<40>();
    if (threadIdx.x > 0) return;
    sm90::PipelineState state{0, 1};
    for (int tile_index = blockIdx.x; tile_index < scheduler.tiles(); tile_index += gridDim.x) {
      const Tile tile = scheduler.at(tile_index);
      const int row = tile.row * P::bm, column = tile.column * P::bn, k_tiles = scheduler.k_tiles(tile_index);
      for (int s = 0, k_offset = scheduler.first_k(tile_index); s < k_tiles;
           ++s, k_offset += kTileK, state.next(P::stages)) {
        const unsigned full_barrier = storage.pipeline.producer_acquire(state, P::bytes_a + P::bytes_b);
#pragma unroll 1
        for (int i = 0; i < P::bm / 64; ++i)
          sm90::tma_load_3d(storage.stages_a + state.index * P::bytes_a + i * kBoxBytes, &a, full_barrier,
                            P::a_mn_major ? row + i * 64 : k_offset, P::a_mn_major ? k_offset : row + i * 64, tile.a);
#pragma unroll 1
        for (int i = 0; i < P::bn / 64; ++i)
          sm90::tma_load_3d(storage.stages_b + state.index * P::bytes_b + i * kBoxBytes, &b, full_barrier,
                            P::b_mn_major ? column + i * 64 : k_offset, P::b_mn_major ? k_offset : column + i * 64,
                            tile.b);
      }
    }
    return;
  }

  if constexpr (P::groups > 1) sm90::warpgroup_reg_alloc<232>();
  const int group = threadIdx.x / kWarpgroupThreads - 1, group_m = group % P::gm, group_n = group / P::gm;
  const int thread = threadIdx.x % kWarpgroupThreads;
  const unsigned own_a = storage.stages_a + group_m * P::wgmmas * kBoxBytes,
                 own_b = storage.stages_b + group_n * (P::width / 64) * kBoxBytes;
  sm90::WgmmaConsumer consumer(storage.pipeline, sm90::BlockRelease{thread});
  float d[P::wgmmas][P::width / 2];
  unsigned pending[P::subtiles][16];  // the previous tile, rounded, and its position in C
  int pending_row = 0, pending_column = 0, pending_matrix = 0, box = 0;
  bool has_pending = false;

  const auto k_tile = [&](int s) {
    consumer.k_tile(s, [&](int stage) { sm90::wgmma_k_tile<P>(d, own_a, own_b, stage, s); });
  };
  const auto store = [&](int subtile, unsigned from) {
    sm90::tma_store_3d(&c, from, pending_column + subtile % (P::width / 64) * 64,
                       pending_row + subtile / (P::width / 64) * 64, pending_matrix);
  };
  const auto store_subtile = [&](int subtile) {
    const unsigned to = storage.staging + (group * kBoxes + box) * kBoxBytes;
    if (thread == 0) sm90::tma_store_wait_read<kBoxes - 1>();
    sm90::named_barrier_sync(1 + group, kWarpgroupThreads);
    sm90::registers_to_shared(to, pending[subtile], threadIdx.x % kWarpgroupThreads);
    sm90::fence_proxy_async();
    sm90::named_barrier_sync(1 + group, kWarpgroupThreads);
    if (thread == 0) store(subtile, to);
    if (kBoxes == 2) box ^= 1;
  };
  const auto store_all = [&] {
    const unsigned to = storage.staging + group * kBoxes * kBoxBytes;
    if (thread == 0) sm90::tma_store_wait_read<0>();
    sm90::named_barrier_sync(1 + group, kWarpgroupThreads);
#pragma unroll
    for (int subtile = 0; subtile < P::subtiles; ++subtile)
      sm90::registers_to_shared(to + subtile * kBoxBytes, pending[subtile], threadIdx.x % kWarpgroupThreads);
    sm90::fence_proxy_async();
    sm90::named_barrier_sync(1 + group, kWarpgroupThreads);
    if (thread == 0) {
#pragma unroll
      for (int subtile = 0; subtile < P::subtiles; ++subtile) store(subtile, to + subtile * kBoxBytes);
    }
  };

  for (int tile_index = blockIdx.x; tile_index < scheduler.tiles(); tile_index += gridDim.x) {
    const int k_tiles = scheduler.k_tiles(tile_index);
    if (k_tiles > 0) k_tile(0);
    const Tile tile = scheduler.at(tile_index);
    int row = (tile.row * P::gm + group_m) * P::wgmmas * 64, matrix = tile.c;
    int column = (tile.column * P::gn + group_n) * P::width;
    asm volatile("" : "+r"(row), "+r"(column), "+r"(matrix));  // computed here, while wgmma runs
    if (has_pending) store_subtile(0);
#pragma unroll
    for (int subtile = 1; subtile < P::subtiles; ++subtile) {
      if (subtile < k_tiles) k_tile(subtile);
      if (has_pending) store_subtile(subtile);
    }
    for (int s = P::subtiles; s < k_tiles; ++s) k_tile(s);
    sm90::wgmma_wait_group<0>();
    if (k_tiles > 0) consumer.release(consumer.previous_empty);
    pending_row = row, pending_column = column, pending_matrix = matrix;
    has_pending = !STORE_AT_END;
#pragma unroll
    for (int subtile = 0; subtile < P::subtiles; ++subtile) {
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const float* const pair = &d[subtile / (P::width / 64)][subtile % (P::width / 64) * 32 + 2 * i];
        pending[subtile][i] = k_tiles == 0 ? 0 : sm90::rounded(pair[0], pair[1], typename P::Element());
      }
    }
    if (STORE_AT_END) store_all();
  }
  if (has_pending) {
#pragma unroll
    for (int subtile = 0; subtile < P::subtiles; ++subtile) store_subtile(subtile);
  }
  if (thread == 0) sm90::tma_store_wait_read<0>();  // the end of the kernel waits for the global writes
}

}  // namespace gemm_batched
}  // namespace warpwise
