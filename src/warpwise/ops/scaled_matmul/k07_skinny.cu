// Few rows: columns of B take the M dimension of wgmma; the tile width is chosen so that one wave covers C.
//
// With few rows the time is that of reading B once, and L2 traffic matters as much: each tile reads all rows of A.
// Tile widths are multiples of 8 columns, one of which gives each SM one tile. For more rows of A, wide tiles share
// them and blocks split K instead: the SPLIT blocks of a cluster exchange partial sums through distributed shared
// memory, other splits add theirs through global memory; both in a fixed order.
//
// The smallest sizes are bound by latency: the first boxes are loaded before the block synchronises, scales are loaded
// during the main loop, and each warpgroup stores its sums without waiting for others.

#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/cluster.cuh>
#include <warpwise/sm90/mbarrier.cuh>
#include <warpwise/sm90/warpgroup.cuh>
#include "skinny_pipeline.cuh"
#include "skinny_epilogue.cuh"

// a: (m, k), b: (n, k), tensor maps with boxes of TILE x 128 and `columns` x 128, where TILE = GROUPS_M * ROWS; c: (m,
// n), row-major; ALIGNED: its rows are 16-byte aligned. Scales: one each, or (m,) and (n,) if ROWWISE. K has
// `total_stages` stages, stages_per_split of them per split. hints: policies.cuh. SPLIT_GLOBAL: gridDim.z > 1 splits
// through global memory; partials: (gridDim.z, blocks of one split, kOwnSums / 4, Pipeline::kThreads), semaphores: a
// zero per block. Cluster: SPLIT splits of K. Grid: (cdiv(n, columns) * SPLIT, cdiv(m, TILE), splits). Block:
// Pipeline::kBlock threads. Dynamic shared memory: 1 KiB for alignment + the stages + 4 KiB per consumer warpgroup +
// the receive buffer of cluster_reduce.
template <class A, class B, int GROUPS_N, int GROUPS_M, int ROWS, int K_TILES, int SPLIT, bool ROWWISE, bool ALIGNED,
          bool SPLIT_GLOBAL>
__global__ void __launch_bounds__(Pipeline<A, B, GROUPS_N, GROUPS_M, ROWS, K_TILES>::kBlock, 1) __cluster_dims__(SPLIT,
                                                                                                                 1, 1)
    scaled_matmul_skinny(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
                         __nv_bfloat16* c, const float* __restrict__ scale_a, const float* __restrict__ scale_b,
                         float4* partials, int* semaphores, int m, int n, int columns, int stages, int total_stages,
                         int stages_per_split, int hints) {
  using Pipe = Pipeline<A, B, GROUPS_N, GROUPS_M, ROWS, K_TILES>;
  constexpr int kWarps = Pipe::kThreads / 32;
  constexpr int kOwners = ROWS < 32 ? 1 : ROWS / 16 < SPLIT ? ROWS / 16 : SPLIT;  // blocks that reduce and store a tile
  constexpr int kOwnSums = ROWS / 2 / kOwners;  // sums per thread of a block that stores
  extern __shared__ unsigned char raw[];
  __shared__ unsigned long long barriers[64], sums_arrived;
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0);
  if (warp == kWarps && sm90::elect_one()) {
    sm90::prefetch_tensormap(&b);
    sm90::prefetch_tensormap(&a);
  }
  Pipe pipe(raw, barriers, columns, stages);
  const unsigned sums_barrier = warpwise::shared_address(&sums_arrived);
  const int rank = SPLIT > 1 ? static_cast<int>(sm90::cluster_ctarank()) : 0;
  const int first_row = blockIdx.y * Pipe::kTileRows, first_column = blockIdx.x / SPLIT * columns;
  const int first = ((SPLIT_GLOBAL ? blockIdx.z * SPLIT : 0) + rank) * stages_per_split,
            last = min(first + stages_per_split, total_stages);

  if (warp < kWarps) {
    if (Pipe::kReallocates) sm90::warpgroup_reg_alloc<Pipe::kConsumerRegisters>();
    if (sm90::elect_one()) {
#pragma unroll 1
      for (int s = 1 + warp; s < stages; s += kWarps) pipe.init(s);
      if (SPLIT > 1 && warp == 0) {
        sm90::mbarrier_init(sums_barrier, 1);
        sm90::mbarrier_arrive_expect_tx(sums_barrier, (SPLIT - 1) * kOwnSums * Pipe::kThreads * 4);
      }
      sm90::fence_mbarrier_init();
    }
    __syncwarp();
    const int group = warp / 4;
    const int row = first_row + group / GROUPS_N * ROWS + (kOwners > 1 ? rank * (ROWS / kOwners) : 0);
    const int column = first_column + group % GROUPS_N * kColumns;
    const Scales<ROWWISE, kOwnSums * 2> scales(scale_a, scale_b, row, column + warp % 4 * 16, m, n);
    sm90::block_sync();
    if (SPLIT > 1) sm90::cluster_arrive_relaxed();
    float sums[ROWS / 2];
    pipe.multiply(sums, last - first);
    const auto store_tile = [&](float (&own_sums)[kOwnSums]) {
      if constexpr (SPLIT_GLOBAL) {
        const long long vectors = kOwnSums / 4 * Pipe::kThreads, blocks = gridDim.x * gridDim.y;
        const int block = blockIdx.y * gridDim.x + blockIdx.x;
        if (!split_k_reduce<Pipe::kThreads>(own_sums, partials + block * vectors, blocks * vectors, blockIdx.z,
                                            gridDim.z, semaphores + block))
          return;
      }
      epilogue<ROWWISE, ALIGNED>(own_sums, scales, c, row, column, m, n, min(n, first_column + columns),
                                 pipe.end() + group * 4096, 2 + group);
    };
    if constexpr (SPLIT > 1) {
      sm90::cluster_wait();  // the other blocks have initialised their barriers
      float own_sums[kOwnSums];
      if (cluster_reduce<SPLIT, kOwners, Pipe::kThreads>(sums, own_sums, pipe.end() + Pipe::kGroups * 4096,
                                                         sums_barrier, rank))
        store_tile(own_sums);
    } else {
      store_tile(sums);
    }
  } else {
    if (Pipe::kReallocates) sm90::warpgroup_reg_dealloc<Pipe::kProducerRegisters>();
    const bool is_producer = warp == kWarps && sm90::elect_one();
    const sm90::CachePolicy policy_a = policy_for(hints / 4), policy_b = policy_for(hints % 4);
    const auto load = [&](int s) {
      pipe.load(a, b, s * K_TILES * kTileK, first_row, first_column, policy_a, policy_b);
    };
    if (is_producer) {
      pipe.init(0);
      sm90::fence_mbarrier_init();
      if (first < last) load(first);
    }
    __syncwarp();
    sm90::block_sync();  // the consumers have initialised the other barriers
    if (SPLIT > 1) sm90::cluster_arrive_relaxed();
    if (is_producer) {
      for (int s = first + 1; s < last; ++s) {
        if (s - first >= stages) pipe.ring.producer_acquire({pipe.state.index, pipe.state.phase ^ 1});
        load(s);
      }
    }
    __syncwarp();
    if (SPLIT > 1) sm90::cluster_wait();
  }
}
