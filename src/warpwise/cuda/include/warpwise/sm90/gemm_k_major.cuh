// Warp-specialised persistent int8 GEMM for Hopper: operands K-major, as wgmma requires for 1 byte; C is int32.
//
// A producer warpgroup loads k-tiles of 128 bytes by TMA; two consumer warpgroups compute 64 x 256 each. The two blocks
// of a cluster compute vertically adjacent tiles and share B by multicast. A block is persistent.
#pragma once

#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/cluster.cuh>
#include <warpwise/sm90/pipeline.cuh>
#include <warpwise/sm90/tile_scheduler.cuh>
#include <warpwise/sm90/tma.cuh>
#include <warpwise/sm90/unaligned_store.cuh>
#include <warpwise/sm90/warpgroup.cuh>
#include <warpwise/sm90/wgmma.cuh>

namespace warpwise {
namespace gemm_k_major {

constexpr int kCluster = 2, kStages = 4, kRows = 128, kColumns = 256, kTileK = 128;
constexpr int kThreads = 384, kWarpgroupThreads = 128;  // warpgroup 0 produces, 1 and 2 compute 64 rows each
constexpr unsigned kBoxBytes = 128 * 128;               // 128 rows of 128 bytes
constexpr unsigned kBytesA = kBoxBytes, kBytesB = 2 * kBoxBytes, kBytesC = 64 * 32 * 4;

// a: (m, k) and b: (n, k), maps with boxes of 128 rows x 128 bytes; c: (m, n), with boxes of 64 x 32, or DenseRows.
// `shared`: 1 KiB for alignment + kStages * (kBytesA + kBytesB) + 4 * kBytesC + 16 * kStages bytes. Grid: a multiple of
// kCluster, at most one block for each SM. Block: kThreads.
template <class C>
__device__ inline void gemm(const sm90::TensorMap& a, const sm90::TensorMap& b, const C& c, int k, int pairs,
                            int columns, int group, unsigned shared) {
  const unsigned base = (shared + 1023) & ~1023u;  // a swizzled unit is 1 KiB
  const unsigned stages_a = base, stages_b = stages_a + kStages * kBytesA, staging = stages_b + kStages * kBytesB;
  const sm90::Pipeline pipeline(staging + 4 * kBytesC, kStages);
  const int rank = static_cast<int>(sm90::cluster_ctarank()), k_tiles = (k + kTileK - 1) / kTileK;
  const sm90::TileScheduler order{pairs, columns, group};
  const int first = blockIdx.x / kCluster, step = gridDim.x / kCluster, tiles = order.tiles();

  if (threadIdx.x == 0) {
    pipeline.init(1, 2 * kCluster);  // both consumer warpgroups of both blocks
    sm90::fence_mbarrier_init();
  }
  sm90::cluster_sync();

  if (threadIdx.x < kWarpgroupThreads) {
    sm90::warpgroup_reg_dealloc<40>();
    if (threadIdx.x == 0) {
      sm90::PipelineState state{0, 1};
      for (int tile_index = first; tile_index < tiles; tile_index += step) {
        const sm90::Tile tile = order.at(tile_index);
        const int tile_row = tile.row * kCluster + rank;
        for (int s = 0; s < k_tiles; ++s, state.next(kStages)) {
          const unsigned full_barrier = pipeline.producer_acquire(state, kBytesA + kBytesB);
          sm90::tma_load_2d(stages_a + state.index * kBytesA, &a, full_barrier, s * kTileK, tile_row * kRows);
          sm90::tma_load_2d_multicast(stages_b + state.index * kBytesB + rank * kBoxBytes, &b, full_barrier, s * kTileK,
                                      tile.column * kColumns + rank * 128, 3);
        }
      }
    }
  } else {
    sm90::warpgroup_reg_alloc<232>();
    const int warpgroup = threadIdx.x / kWarpgroupThreads - 1, thread = threadIdx.x % kWarpgroupThreads,
              lane = thread % 32;
    const unsigned own_staging = staging + warpgroup * 2 * kBytesC;  // two staging boxes of C, used in turn
    sm90::WgmmaConsumer consumer(pipeline, [=](unsigned empty_barrier) {
      if (thread < kCluster) sm90::mbarrier_arrive(empty_barrier, thread);
    });
    int next_box = 0;
    for (int tile_index = first; tile_index < tiles; tile_index += step) {
      const sm90::Tile tile = order.at(tile_index);
      const int tile_row = tile.row * kCluster + rank;
      int d[128];
      consumer.previous_empty = 0;
      for (int s = 0; s < k_tiles; ++s)
        consumer.k_tile(s, [&](int stage) {
          sm90::wgmma_fence();
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const unsigned from_a = stages_a + stage * kBytesA + warpgroup * 64 * 128 + i * 32;
            const unsigned from_b = stages_b + stage * kBytesB + i * 32;
            sm90::wgmma<signed char, 256>(d, sm90::matrix_descriptor(from_a, 16, 1024),
                                          sm90::matrix_descriptor(from_b, 16, 1024), s || i);
          }
        });
      consumer.finish();

#pragma unroll
      for (int subtile = 0; subtile < kColumns / 32; ++subtile, next_box ^= 1) {
        const unsigned to = own_staging + next_box * kBytesC;
        if constexpr (sm90::kIsTensorMap<C>) {
          if (thread == 0) sm90::tma_store_wait_read<1>();
          sm90::named_barrier_sync(1 + warpgroup, kWarpgroupThreads);
        } else {
          __syncwarp();  // a warp stores and loads its own 16 rows
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {  // 8 columns: two units of 16 bytes, swizzled by row
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const int row = thread / 32 * 16 + half * 8 + lane / 4, unit = j * 2 + lane % 4 / 2,
                      first_register = subtile * 16 + j * 4;
            warpwise::st_shared_v2(to + row * 128 + ((unit ^ (row & 7)) << 4) + lane % 2 * 8,
                                   d[first_register + half * 2], d[first_register + half * 2 + 1]);
          }
        }
        if constexpr (sm90::kIsTensorMap<C>) {
          sm90::fence_proxy_async();
          sm90::named_barrier_sync(1 + warpgroup, kWarpgroupThreads);
          if (thread == 0)
            sm90::tma_store_2d(&c, to, tile.column * kColumns + subtile * 32, tile_row * kRows + warpgroup * 64);
        } else {
          const int warp_row = thread / 32 * 16;
          __syncwarp();
          sm90::store_rows(to + warp_row * 128, c, tile_row * kRows + warpgroup * 64 + warp_row,
                           tile.column * kColumns + subtile * 32);
        }
      }
    }
    if (thread == 0) sm90::tma_store_wait();
  }
  sm90::cluster_sync();  // a block must not exit while the other may arrive at its barriers
}

}  // namespace gemm_k_major
}  // namespace warpwise
