// Shared by the Hopper kernels: tile scheduler, pipeline, producer, main loop and epilogue.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <warpwise/sm90/cluster.cuh>
#include <warpwise/sm90/pipeline.cuh>
#include <warpwise/sm90/tile_scheduler.cuh>
#include <warpwise/sm90/unaligned_store.cuh>
#include <warpwise/sm90/warpgroup.cuh>
#include <warpwise/sm90/wgmma.cuh>

#include "policies.cuh"

constexpr int kCluster = 2, kRows = 128, kTileK = 128;
constexpr int kThreads = 384, kWarpgroupThreads = 128;  // warpgroup 0 produces, 1 and 2 compute 64 rows each
constexpr unsigned kBytesA = kRows * kTileK, kBytesC = 64 * 64 * 2;

using sm90::Tile;

// The tile of block `rank` of a cluster, which computes two vertically adjacent tiles. rows: pairs of tile rows.
struct TileScheduler : sm90::TileScheduler {
  __device__ Tile at(int tile_index, int rank) const {
    const Tile tile = sm90::TileScheduler::at(tile_index);
    return {tile.row * kCluster + rank, tile.column};
  }
};

// Shared memory of a block: STAGES stages of A and B, two staging boxes of C per consumer warpgroup, and barriers.
template <int COLUMNS, int STAGES>
struct SharedStorage {
  static constexpr unsigned kBytesB = COLUMNS * kTileK;
  unsigned a, b, c;
  sm90::Pipeline pipeline;

  __device__ explicit SharedStorage(const unsigned char* raw)
      : a((warpwise::shared_address(raw) + 1023) & ~1023u),  // a swizzled unit is 1 KiB
        b(a + STAGES * kBytesA),
        c(b + STAGES * kBytesB),
        pipeline(c + 4 * kBytesC, STAGES) {
    if (threadIdx.x == 0) {
      pipeline.init(1, 2 * kCluster);  // both consumer warpgroups of both blocks
      sm90::fence_mbarrier_init();
    }
    sm90::cluster_sync();
  }

  __device__ unsigned stage_a(int stage) const { return a + stage * kBytesA; }
  __device__ unsigned stage_b(int stage) const { return b + stage * kBytesB; }
};

// The producer thread: loads all k-tiles of all tiles of this block; of B, the half that it multicasts to both blocks.
template <int COLUMNS, int STAGES>
__device__ inline void produce(const SharedStorage<COLUMNS, STAGES>& storage, const sm90::TensorMap& a,
                               const sm90::TensorMap& b, const TileScheduler& scheduler, int k_tiles, int rank,
                               int hints) {
  constexpr unsigned kBytesB = SharedStorage<COLUMNS, STAGES>::kBytesB;
  const sm90::CachePolicy policy_a = policy_for(hints / 4), policy_b = policy_for(hints % 4);
  sm90::PipelineState state{0, 1};
  for (int tile_index = blockIdx.x / kCluster; tile_index < scheduler.tiles(); tile_index += gridDim.x / kCluster) {
    const Tile tile = scheduler.at(tile_index, rank);
    for (int s = 0; s < k_tiles; ++s, state.next(STAGES)) {
      const unsigned full_barrier = storage.pipeline.producer_acquire(state, kBytesA + kBytesB);
      sm90::tma_load_2d(storage.stage_a(state.index), &a, full_barrier, s * kTileK, tile.row * kRows, policy_a);
      sm90::tma_load_2d_multicast(storage.stage_b(state.index) + rank * (kBytesB / 2), &b, full_barrier, s * kTileK,
                                  tile.column * COLUMNS + rank * (COLUMNS / 2), 3, policy_b);
    }
  }
}

// Starts the wgmma of a k-tile: 64 rows of A by 128 columns of B. The result replaces the accumulator, or is added to
// it if `adds`.
template <class A, class B>
__device__ inline void wgmma_k_tile(float (&accumulator)[64], unsigned a, unsigned b, bool adds) {
  sm90::wgmma_fence();
#pragma unroll
  for (int i = 0; i < kTileK / 32; ++i)
    sm90::wgmma<sm90::Pair<A, B>, 128>(accumulator, sm90::matrix_descriptor(a + i * 32, 16, 1024),
                                       sm90::matrix_descriptor(b + i * 32, 16, 1024), adds || i > 0);
  sm90::wgmma_commit_group();
}

__device__ inline unsigned pack(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}

// The destination of C: boxes of 64 x 64 by TMA, or rows of any alignment by threads.
template <bool BY_TMA>
struct Target {
  const sm90::TensorMap* map;
  sm90::DenseRows<__nv_bfloat16> rows;
};

// Epilogue of a consumer warpgroup: scales, rounds and stores 64 rows, from `row` on, of a tile whose first column is
// `column`, in boxes of 64 columns, through two staging boxes in shared memory at `staging`; `box` is the next one.
// Scales: as in the kernels. `consumer`: the index of the warpgroup among the consumers.
template <bool ROWWISE, bool BY_TMA, int SUBTILES>
__device__ inline void store_tile(const float (&sums)[SUBTILES][32], const Target<BY_TMA>& target, const float* scale_a,
                                  const float* scale_b, int row, int column, int m, int n, unsigned staging, int& box,
                                  int consumer) {
  const int thread = threadIdx.x % kWarpgroupThreads, lane = thread % 32;
  const int first_row = row + thread / 32 * 16 + lane / 4;  // of the two rows of this thread
  const float scale = ROWWISE ? 1.0f : *scale_a * *scale_b;
  const float upper_scale = ROWWISE ? scale_a[min(first_row, m - 1)] : scale;
  const float lower_scale = ROWWISE ? scale_a[min(first_row + 8, m - 1)] : scale;
  float2 column_scales[2][8];  // of this thread's columns, loaded one subtile ahead; clamped at the edge
  const auto load_column_scales = [&](int subtile) {
#pragma unroll
    for (int pair = 0; pair < 8; ++pair) {
      const int scale_column = column + subtile * 64 + pair * 8 + lane % 4 * 2;
      float2& scales = column_scales[subtile % 2][pair];
      if (!ROWWISE)
        scales = make_float2(1.0f, 1.0f);
      else if (BY_TMA)  // n is even
        scales = *reinterpret_cast<const float2*>(scale_b + min(scale_column, n - 2));
      else
        scales = make_float2(scale_b[min(scale_column, n - 1)], scale_b[min(scale_column + 1, n - 1)]);
    }
  };
  load_column_scales(0);
#pragma unroll
  for (int subtile = 0; subtile < SUBTILES; ++subtile, box ^= 1) {
    const unsigned to = staging + box * kBytesC;
    if (subtile + 1 < SUBTILES) load_column_scales(subtile + 1);
    if (BY_TMA) {
      if (thread == 0) sm90::tma_store_wait_read<1>();
      sm90::named_barrier_sync(1 + consumer, kWarpgroupThreads);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {  // 16 columns: four 8 x 8 matrices
      unsigned r[4];
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        const float* const sum4 = &sums[subtile][j * 8 + pair * 4];
        const float2 scale2 = column_scales[subtile % 2][j * 2 + pair];
        r[2 * pair] = pack(sum4[0] * (upper_scale * scale2.x), sum4[1] * (upper_scale * scale2.y));
        r[2 * pair + 1] = pack(sum4[2] * (lower_scale * scale2.x), sum4[3] * (lower_scale * scale2.y));
      }
      const int to_row = thread / 32 * 16 + lane % 16, unit = j * 2 + lane / 16;  // of 16 bytes; swizzled by row
      sm90::stmatrix_x4(to + to_row * 128 + ((unit ^ (to_row & 7)) << 4), r);
    }
    if (BY_TMA) {
      sm90::fence_proxy_async();
      sm90::named_barrier_sync(1 + consumer, kWarpgroupThreads);
      if (thread == 0) sm90::tma_store_2d(target.map, to, column + subtile * 64, row);
    } else {
      const int warp_row = thread / 32 * 16;  // a warp stores and loads its own 16 rows
      __syncwarp();
      sm90::store_rows(to + warp_row * 128, target.rows, row + warp_row, column + subtile * 64);
    }
  }
}
