// Few rows: the columns of B take the 64 rows of the matrix units, and tiles are as wide as one round of blocks asks.
//
// With few rows the time is that of reading B once, and what else comes from L2 counts as much: each tile reads all
// rows of A again. Of tiles of 8, 16, 24 ... columns one width gives each SM one tile; where A's rows are many, wide
// tiles share them, and blocks divide K instead: SPLIT blocks of a cluster send each other their sums, others add
// theirs by way of global memory; both in a fixed order.
//
// The smallest products take as long as it takes to begin and to end: the first boxes are asked for before the block
// meets, scales come under the products, and sums leave a warpgroup at a time, which waits for no other.

#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/cluster.cuh>
#include <warpwise/sm90/mbarrier.cuh>
#include <warpwise/sm90/warpgroup.cuh>
#include "skinny_ring.cuh"
#include "skinny_sums.cuh"

// a: (m, k), b: (n, k), as maps with boxes of TILE x 128 and `columns` x 128, where TILE = SIDES * ROWS; c: (m,
// n), row-major, ALIGNED where it and its rows lie on 16 bytes. Scales: one each, or (m,) and (n,) BY_ROW. K is `deep`
// stages, `share_of_k` a part. `hints`: policies.cuh.
// PARTS: gridDim.z > 1 of them; parts: (gridDim.z, blocks of one, kOwn / 4, Ring::kThreads), tickets: a zero a block.
// Cluster: SPLIT parts of K. Grid: cdiv(n, columns) clusters x cdiv(m, TILE) x parts.
// Block: Ring::kBlock threads. Dynamic shared memory: 1 KiB to align + what Tiles.shared counts.
template <class A, class B, int GROUPS, int SIDES, int ROWS, int SLICES, int SPLIT, bool BY_ROW, bool ALIGNED,
          bool PARTS>
__global__ void __launch_bounds__(Ring<A, B, GROUPS, SIDES, ROWS, SLICES>::kBlock, 1) __cluster_dims__(SPLIT, 1, 1)
    scaled_matmul_skinny(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
                         __nv_bfloat16* c, const float* __restrict__ scale_a, const float* __restrict__ scale_b,
                         float4* parts, int* tickets, int m, int n, int columns, int stages, int deep, int share_of_k,
                         int hints) {
  using Room = Ring<A, B, GROUPS, SIDES, ROWS, SLICES>;
  constexpr int kWarps = Room::kThreads / 32;
  constexpr int kOwners = ROWS < 32 ? 1 : ROWS / 16 < SPLIT ? ROWS / 16 : SPLIT;  // blocks that finish a tile
  constexpr int kOwn = ROWS / 2 / kOwners;                                        // sums of a thread
  extern __shared__ unsigned char raw[];
  __shared__ unsigned long long barriers[64], sums_arrived;
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
  if (warp == kWarps && sm90::elect_one()) {
    sm90::prefetch_tensormap(&b);
    sm90::prefetch_tensormap(&a);
  }
  Room ring(raw, barriers, columns, stages);
  const unsigned arrived = warpwise::shared_address(&sums_arrived);
  const int rank = SPLIT > 1 ? static_cast<int>(sm90::cluster_ctarank()) : 0;
  const int first_row = blockIdx.y * Room::kTileRows, first_column = blockIdx.x / SPLIT * columns;
  const int first = ((PARTS ? blockIdx.z * SPLIT : 0) + rank) * share_of_k, last = min(first + share_of_k, deep);

  if (warp < kWarps) {
    if (Room::kMoves) sm90::warpgroup_reg_alloc<Room::kMore>();
    if (sm90::elect_one()) {
#pragma unroll 1
      for (int s = 1 + warp; s < stages; s += kWarps) ring.init(s);
      if (SPLIT > 1 && warp == 0) {
        sm90::mbarrier_init(arrived, 1);
        sm90::mbarrier_arrive_expect_tx(arrived, (SPLIT - 1) * kOwn * Room::kThreads * 4);
      }
      sm90::fence_mbarrier_init();
    }
    __syncwarp();
    const int team = warp / 4;
    const int row = first_row + team / GROUPS * ROWS + (kOwners > 1 ? rank * (ROWS / kOwners) : 0);
    const int column = first_column + team % GROUPS * kColumns;
    const Scales<BY_ROW, kOwn * 2> scales(scale_a, scale_b, row, column + warp % 4 * 16, m, n);
    __syncthreads();
    if (SPLIT > 1) sm90::cluster_arrive_relaxed();
    float sums[ROWS / 2];
    ring.multiply(sums, last - first);
    const auto finish = [&](float (&own)[kOwn]) {
      if constexpr (PARTS) {
        const long long quads = kOwn / 4 * Room::kThreads, blocks = gridDim.x * gridDim.y;
        const int block = blockIdx.y * gridDim.x + blockIdx.x;
        if (!add_parts<Room::kThreads>(own, parts + block * quads, blocks * quads, blockIdx.z, gridDim.z,
                                       tickets + block))
          return;
      }
      leave<BY_ROW, ALIGNED>(own, scales, c, row, column, m, n, min(n, first_column + columns),
                             ring.end() + team * 4096, 2 + team);
    };
    if constexpr (SPLIT > 1) {
      sm90::cluster_wait();  // the others have made their barriers
      float own[kOwn];
      if (exchange<SPLIT, kOwners, Room::kThreads>(sums, own, ring.end() + Room::kTeams * 4096, arrived, rank))
        finish(own);
    } else {
      finish(sums);
    }
  } else {
    if (Room::kMoves) sm90::warpgroup_reg_dealloc<Room::kFewer>();
    const bool feeds = warp == kWarps && sm90::elect_one();
    const sm90::CachePolicy of_a = policy_for(hints / 4), of_b = policy_for(hints % 4);
    const auto load = [&](int s) { ring.load(a, b, s * SLICES * kDepth, first_row, first_column, of_a, of_b); };
    if (feeds) {
      ring.init(0);
      sm90::fence_mbarrier_init();
      if (first < last) load(first);
    }
    __syncwarp();
    __syncthreads();  // the other warps have made the other barriers
    if (SPLIT > 1) sm90::cluster_arrive_relaxed();
    if (feeds) {
      for (int s = first + 1; s < last; ++s) {
        if (s - first >= stages) sm90::mbarrier_wait(ring.empty + 8 * ring.stage, ring.phase ^ 1);
        load(s);
      }
    }
    __syncwarp();
    if (SPLIT > 1) sm90::cluster_wait();
  }
}
