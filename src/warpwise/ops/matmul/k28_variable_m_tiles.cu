// Variable-M tiles against wave quantisation: rows of tiles with 256 or 248 rows, and one with 128 if needed.
//
// 4096 x 4096 is 512 tiles of 256 x 128: four waves of 128 SMs, while four are idle. With tiles of 248 rows it is 512
// tiles and a row of 16 tiles of 128 x 256: 132 SMs compute four each. wgmma computes C^T = B^T A^T, whose
// N dimension, a multiple of 8, is rows of A; K-major lines of A are 16-byte aligned at any row. A tile of 248 rows is
// loaded and stored like one of 256, with its last box at row 184: eight rows are stored twice, with equal values.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <warpwise/sm90/gemm.cuh>

#include "variable_m.cuh"

namespace sm90 = warpwise::sm90;
using sm90::kBoxBytes, sm90::kWarpgroupThreads, sm90::kTileK;

constexpr int kGroups = 2, kSubtiles = 4, kStages = 4, kBoxes = 2;
constexpr unsigned kStageBytes = 6 * kBoxBytes;  // bytes of a stage: boxes of B, then those of A

// Stores 64 x 64 of C from the registers of a warpgroup, which hold the transpose, to a box in shared memory; each
// warp stores 16 columns.
__device__ inline void registers_to_shared_transposed(unsigned box, const unsigned (&pairs)[16], int thread) {
  const int lane = thread % 32, unit = thread / 32 * 2 + lane / 8 % 2;  // of 16 bytes; swizzled by row
#pragma unroll
  for (int j = 0; j < 4; ++j) {  // 16 rows: four 8 x 8 matrices
    const int row = j * 16 + lane / 16 * 8 + lane % 8;
    const unsigned r[4] = {pairs[4 * j], pairs[4 * j + 1], pairs[4 * j + 2], pairs[4 * j + 3]};
    sm90::stmatrix_x4_trans(box + row * 128 + ((unit ^ (row & 7)) << 4), r);
  }
}

// The first COUNT accumulators.
template <int COUNT>
__device__ __forceinline__ float (&first_sums(float (&d)[128]))
    [COUNT] { return reinterpret_cast<float (&)[COUNT]>(d); }

// a: (m, k); b: (n, k), or (k, n) if MN_MAJOR; c: (m, n): tensor maps with boxes of 64 x 64. tile_columns, tile_rows,
// raster_group, wide, flat_tiles: of VariableMTiles; a tile column is 128 columns of C. Grid: any number of blocks.
// Dynamic shared memory: 1 KiB for alignment, kStages stages, kBoxes staging boxes per consumer warpgroup, 16 bytes per
// stage.
template <class T, bool MN_MAJOR>
__global__ void __launch_bounds__((1 + kGroups) * 128, 1)
matmul_variable_m_tiles(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
                        const __grid_constant__ sm90::TensorMap c, int k, int tile_columns, int tile_rows,
                        int raster_group, int wide, int flat_tiles) {
  extern __shared__ unsigned char raw[];
  const unsigned stages = (warpwise::shared_address(raw) + 1023) & ~1023u;  // a swizzled unit is 1 KiB
  const unsigned staging = stages + kStages * kStageBytes;
  const sm90::Pipeline pipeline(staging + kGroups * kBoxes * kBoxBytes, kStages);
  const VariableMTiles<sm90::TileScheduler> scheduler{{tile_columns, tile_rows, raster_group}, wide, flat_tiles};
  const int k_tiles = (k + kTileK - 1) / kTileK;

  if (threadIdx.x == 0) {
    pipeline.init(1, kGroups);
    sm90::fence_mbarrier_init();
  }
  __syncthreads();

  if (threadIdx.x < kWarpgroupThreads) {
    sm90::warpgroup_reg_dealloc<40>();
    if (threadIdx.x == 0) {
      sm90::PipelineState state{0, 1};
      scheduler.for_each_tile(blockIdx.x, gridDim.x, [&](auto tile, int row, int column) {
        using Config = decltype(tile);
        for (int s = 0; s < k_tiles; ++s, state.next(kStages)) {
          const unsigned to = stages + state.index * kStageBytes;
          const unsigned full_barrier =
              pipeline.producer_acquire(state, (Config::boxes_b + Config::boxes_a) * kBoxBytes);
#pragma unroll 1
          for (int i = 0; i < Config::boxes_b; ++i)
            sm90::tma_load_operand<MN_MAJOR, false>(to + i * kBoxBytes, &b, full_barrier, column + i * 64, s * kTileK,
                                                    0);
#pragma unroll 1
          for (int i = 0; i < Config::boxes_a; ++i)
            sm90::tma_load_2d(to + (Config::boxes_b + i) * kBoxBytes, &a, full_barrier, s * kTileK, row + i * 64);
        }
      });
    }
    return;
  }

  sm90::warpgroup_reg_alloc<232>();
  const int group = threadIdx.x / kWarpgroupThreads - 1, thread = threadIdx.x % kWarpgroupThreads;
  sm90::WgmmaConsumer consumer(pipeline, sm90::BlockRelease{thread});
  unsigned pending[kSubtiles][16];  // the previous tile, rounded, and the position of its boxes
  int pending_row = 0, pending_column = 0, pending_last_box = 0, box_index = 0;
  bool has_pending = false, pending_transposed = false;

  const auto k_tile = [&](auto tile, float (&d)[128], int s) {
    using Config = decltype(tile);
    consumer.k_tile(s, [&](int stage) {
      const unsigned boxes_b = stages + stage * kStageBytes, boxes_a = boxes_b + Config::boxes_b * kBoxBytes;
      sm90::wgmma_fence();
#pragma unroll
      for (int i = 0; i < kTileK / 16; ++i) {
        if constexpr (Config::transposed)
          sm90::wgmma<T, Config::rows, MN_MAJOR, false>(
              first_sums<Config::rows / 2>(d), sm90::operand_descriptor<MN_MAJOR>(boxes_b + group * kBoxBytes, i),
              sm90::operand_descriptor<false>(boxes_a, i), s || i);
        else
          sm90::wgmma<T, 256, false, MN_MAJOR>(d, sm90::operand_descriptor<false>(boxes_a + group * kBoxBytes, i),
                                               sm90::operand_descriptor<MN_MAJOR>(boxes_b, i), s || i);
      }
    });
  };
  const auto store_subtile = [&](int subtile) {
    if (!has_pending) return;
    if (thread == 0) sm90::tma_store_wait_read<kBoxes - 1>();
    sm90::named_barrier_sync(1 + group, kWarpgroupThreads);
    const unsigned box = staging + (group * kBoxes + box_index) * kBoxBytes;
    box_index ^= 1;
    if (pending_transposed)
      registers_to_shared_transposed(box, pending[subtile], thread);
    else
      sm90::registers_to_shared(box, pending[subtile], thread);
    sm90::fence_proxy_async();
    sm90::named_barrier_sync(1 + group, kWarpgroupThreads);
    const int row_offset = pending_transposed ? min(subtile * 64, pending_last_box) : 0,
              column_offset = pending_transposed ? 0 : subtile * 64;
    if (thread == 0) sm90::tma_store_2d(&c, box, pending_column + column_offset, pending_row + row_offset);
  };
  scheduler.for_each_tile(blockIdx.x, gridDim.x, [&](auto tile, int row, int column) {
    using Config = decltype(tile);
    float d[128];
    k_tile(tile, d, 0);
    (Config::transposed ? column : row) += group * 64;
    asm volatile("" : "+r"(row), "+r"(column));  // computed here, while wgmma runs
    store_subtile(0);
#pragma unroll
    for (int subtile = 1; subtile < kSubtiles; ++subtile) {
      if (subtile < k_tiles) k_tile(tile, d, subtile);
      store_subtile(subtile);
    }
    for (int s = kSubtiles; s < k_tiles; ++s) k_tile(tile, d, s);
    consumer.finish();

    pending_row = row, pending_column = column, pending_last_box = Config::rows - 64;
    has_pending = true, pending_transposed = Config::transposed;
#pragma unroll
    for (int subtile = 0; subtile < kSubtiles; ++subtile) {
      const int from =
          !Config::transposed || subtile * 32 < Config::rows / 2 - 32 ? subtile * 32 : Config::rows / 2 - 32;
#pragma unroll
      for (int i = 0; i < 16; ++i) pending[subtile][i] = sm90::rounded(d[from + 2 * i], d[from + 2 * i + 1], T());
    }
  });
#pragma unroll
  for (int subtile = 0; subtile < kSubtiles; ++subtile) store_subtile(subtile);
  if (thread == 0) sm90::tma_store_wait_read<0>();  // the end of the kernel waits for the global writes
}
