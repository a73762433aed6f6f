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

// Stores 64 x 64 of C, rounded, from the registers of a warpgroup to a free box in shared memory.
__device__ inline void registers_to_shared(unsigned box, const unsigned (&pairs)[16]) {
  const int thread = threadIdx.x % kWarpgroupThreads, lane = thread % 32, own_row = thread / 32 * 16 + lane % 16;
#pragma unroll
  for (int j = 0; j < 4; ++j) {          // 16 columns: four 8 x 8 matrices
    const int unit = j * 2 + lane / 16;  // of 16 bytes; swizzled by row
    const unsigned r[4] = {pairs[4 * j], pairs[4 * j + 1], pairs[4 * j + 2], pairs[4 * j + 3]};
    sm90::stmatrix_x4(box + own_row * 128 + ((unit ^ (own_row & 7)) << 4), r);
  }
}

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
  const unsigned base = (warpwise::shared_address(raw) + 1023) & ~1023u;  // a swizzled unit is 1 KiB
  const unsigned stages_a = base, stages_b = stages_a + P::stages * P::bytes_a,
                 staging = stages_b + P::stages * P::bytes_b;
  const unsigned full = staging + P::groups * kBoxes * kBoxBytes,
                 empty = full + 8 * P::stages;  // barriers

  if (threadIdx.x == 0) {
    for (int s = 0; s < P::stages; ++s) {
      sm90::mbarrier_init(full + 8 * s, 1);
      sm90::mbarrier_init(empty + 8 * s, P::groups);
    }
    sm90::fence_mbarrier_init();
  }
  __syncthreads();

  if (threadIdx.x < kWarpgroupThreads) {
    if constexpr (P::groups > 1) sm90::warpgroup_reg_dealloc<40>();
    if (threadIdx.x > 0) return;
    sm90::PipelineState<P::stages> state{0, 1};  // all stages are free at first
    for (int tile_index = blockIdx.x; tile_index < scheduler.tiles(); tile_index += gridDim.x) {
      const Tile tile = scheduler.at(tile_index);
      const int row = tile.row * P::bm, column = tile.column * P::bn, k_tiles = scheduler.k_tiles(tile_index);
      for (int s = 0, k_offset = scheduler.first_k(tile_index); s < k_tiles; ++s, k_offset += kTileK, state.next()) {
        const unsigned full_barrier = full + 8 * state.stage;
        sm90::mbarrier_wait(empty + 8 * state.stage, state.phase);
        sm90::mbarrier_arrive_expect_tx(full_barrier, P::bytes_a + P::bytes_b);
#pragma unroll 1
        for (int i = 0; i < P::bm / 64; ++i)
          sm90::tma_load_3d(stages_a + state.stage * P::bytes_a + i * kBoxBytes, &a, full_barrier,
                            P::a_mn_major ? row + i * 64 : k_offset, P::a_mn_major ? k_offset : row + i * 64, tile.a);
#pragma unroll 1
        for (int i = 0; i < P::bn / 64; ++i)
          sm90::tma_load_3d(stages_b + state.stage * P::bytes_b + i * kBoxBytes, &b, full_barrier,
                            P::b_mn_major ? column + i * 64 : k_offset, P::b_mn_major ? k_offset : column + i * 64,
                            tile.b);
      }
    }
    return;
  }

  if constexpr (P::groups > 1) sm90::warpgroup_reg_alloc<232>();
  const int group = threadIdx.x / kWarpgroupThreads - 1, group_m = group % P::gm, group_n = group / P::gm;
  const int thread = threadIdx.x % kWarpgroupThreads;
  const unsigned own_a = stages_a + group_m * P::wgmmas * kBoxBytes,
                 own_b = stages_b + group_n * (P::width / 64) * kBoxBytes;
  sm90::PipelineState<P::stages> state;
  unsigned previous_empty = 0;  // empty barrier of the k-tile whose wgmma may be pending
  float d[P::wgmmas][P::width / 2];
  unsigned pending[P::subtiles][16];  // the previous tile, rounded, and its position in C
  int pending_row = 0, pending_column = 0, pending_matrix = 0, box = 0;
  bool has_pending = false;

  const auto k_tile = [&](int s) {
    sm90::mbarrier_wait(full + 8 * state.stage, state.phase);
    sm90::wgmma_fence();
#pragma unroll
    for (int i = 0; i < kTileK / 16; ++i) {
      const unsigned long long b_descriptor =
          sm90::operand_descriptor<P::b_mn_major>(own_b + state.stage * P::bytes_b, i);
#pragma unroll
      for (int p = 0; p < P::wgmmas; ++p)
        sm90::wgmma<typename P::Element, P::width, P::a_mn_major, P::b_mn_major>(
            d[p], sm90::operand_descriptor<P::a_mn_major>(own_a + state.stage * P::bytes_a + p * kBoxBytes, i),
            b_descriptor, s || i);
    }
    sm90::wgmma_commit_group();
    sm90::wgmma_wait_group<1>();
    if (s > 0 && thread == 0) sm90::mbarrier_arrive(previous_empty, 0);
    previous_empty = empty + 8 * state.stage;
    state.next();
  };
  const auto store = [&](int subtile, unsigned from) {
    sm90::tma_store_3d(&c, from, pending_column + subtile % (P::width / 64) * 64,
                       pending_row + subtile / (P::width / 64) * 64, pending_matrix);
  };
  const auto store_subtile = [&](int subtile) {
    const unsigned to = staging + (group * kBoxes + box) * kBoxBytes;
    if (thread == 0) sm90::tma_store_wait_read<kBoxes - 1>();
    sm90::named_barrier_sync(1 + group, kWarpgroupThreads);
    registers_to_shared(to, pending[subtile]);
    sm90::fence_proxy_async();
    sm90::named_barrier_sync(1 + group, kWarpgroupThreads);
    if (thread == 0) store(subtile, to);
    if (kBoxes == 2) box ^= 1;
  };
  const auto store_all = [&] {
    const unsigned to = staging + group * kBoxes * kBoxBytes;
    if (thread == 0) sm90::tma_store_wait_read<0>();
    sm90::named_barrier_sync(1 + group, kWarpgroupThreads);
#pragma unroll
    for (int subtile = 0; subtile < P::subtiles; ++subtile)
      registers_to_shared(to + subtile * kBoxBytes, pending[subtile]);
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
    if (k_tiles > 0 && thread == 0) sm90::mbarrier_arrive(previous_empty, 0);
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
