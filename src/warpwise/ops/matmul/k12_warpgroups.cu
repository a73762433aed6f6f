// Hopper: a producer warpgroup loads tiles by TMA, two consumer warpgroups multiply them by wgmma, asynchronously.
//
// No thread computes addresses of A or B or holds their elements: TMA writes swizzled boxes of 64 x 64 to shared
// memory, and wgmma reads them there. The two blocks of a cluster compute vertically adjacent tiles; each loads one
// half of the B that they share by multicast. The 128 x 256 accumulators take the registers of 256 threads, which the
// producer warpgroup deallocates. A block is persistent: the producer loads k-tiles of the next tile during the
// epilogue of the previous one.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/cluster.cuh>
#include <warpwise/sm90/mbarrier.cuh>
#include <warpwise/sm90/tma.cuh>
#include <warpwise/sm90/warpgroup.cuh>
#include <warpwise/sm90/wgmma.cuh>

namespace sm90 = warpwise::sm90;

constexpr int kCluster = 2, kStages = 4, kRows = 128, kColumns = 256, kTileK = 64;
constexpr int kThreads = 384, kWarpgroupThreads = 128;  // warpgroup 0 produces, 1 and 2 compute 64 rows each
constexpr unsigned kBoxBytes = 64 * 64 * 2;             // bytes of 64 rows x 64 columns
constexpr unsigned kBytesA = 2 * kBoxBytes, kBytesB = 4 * kBoxBytes;

struct Tile {
  int row, column;  // in tiles
};

// Grouped raster order: groups of `group` pairs of tile rows, column by column within a group, for reuse in L2.
__device__ inline Tile tile_at(int tile_index, int pairs, int columns, int group, int rank) {
  const int per_group = group * columns, first = tile_index / per_group * group, in_group = min(group, pairs - first);
  return {(first + tile_index % per_group % in_group) * kCluster + rank, tile_index % per_group / in_group};
}

struct PipelineState {  // a stage of the ring and its phase parity
  int index = 0;
  unsigned phase = 0;
  __device__ void next() {
    if (++index == kStages) {
      index = 0;
      phase ^= 1;
    }
  }
};

__device__ inline unsigned pack(float low, float high, __nv_bfloat16) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}

__device__ inline unsigned pack(float low, float high, __half) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}

// a: (m, k), b: (k, n), c: (m, n), row-major, as tensor maps with boxes of 64 x 64. pairs, columns: tiles of a cluster
// down and across C. Grid: a multiple of kCluster, at most one block per SM. Dynamic shared memory: 1 KiB for
// alignment + kStages * (kBytesA + kBytesB) + 4 * kBoxBytes + 16 * kStages bytes.
template <class T>
__global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(kCluster, 1, 1)
    matmul_warpgroups(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
                      const __grid_constant__ sm90::TensorMap c, int k, int pairs, int columns, int group) {
  extern __shared__ unsigned char raw[];
  const unsigned base = (warpwise::shared_address(raw) + 1023) & ~1023u;  // a swizzled unit is 1 KiB
  const unsigned stages_a = base, stages_b = stages_a + kStages * kBytesA, staging = stages_b + kStages * kBytesB;
  const unsigned full = staging + 4 * kBoxBytes, empty = full + 8 * kStages;  // barriers
  const int rank = static_cast<int>(sm90::cluster_ctarank()), k_tiles = (k + kTileK - 1) / kTileK;
  const int first = blockIdx.x / kCluster, step = gridDim.x / kCluster, tiles = pairs * columns;

  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      sm90::mbarrier_init(full + 8 * s, 1);
      sm90::mbarrier_init(empty + 8 * s, 2 * kCluster);  // both consumer warpgroups of both blocks
    }
    sm90::fence_mbarrier_init();
  }
  sm90::cluster_sync_relaxed();

  if (threadIdx.x < kWarpgroupThreads) {
    sm90::warpgroup_reg_dealloc<40>();
    if (threadIdx.x == 0) {
      PipelineState state{0, 1};  // all stages are free at first
      for (int tile_index = first; tile_index < tiles; tile_index += step) {
        const Tile tile = tile_at(tile_index, pairs, columns, group, rank);
        for (int s = 0; s < k_tiles; ++s, state.next()) {
          const unsigned full_barrier = full + 8 * state.index, to_a = stages_a + state.index * kBytesA;
          sm90::mbarrier_wait(empty + 8 * state.index, state.phase);
          sm90::mbarrier_arrive_expect_tx(full_barrier, kBytesA + kBytesB);
          for (int i = 0; i < 2; ++i)
            sm90::tma_load_2d(to_a + i * kBoxBytes, &a, full_barrier, s * kTileK, tile.row * kRows + i * 64);
          for (int i = rank * 2; i < rank * 2 + 2; ++i)
            sm90::tma_load_2d_multicast(stages_b + state.index * kBytesB + i * kBoxBytes, &b, full_barrier,
                                        tile.column * kColumns + i * 64, s * kTileK, 3);
        }
      }
    }
  } else {
    sm90::warpgroup_reg_alloc<232>();
    const int consumer = threadIdx.x / kWarpgroupThreads - 1, thread = threadIdx.x % kWarpgroupThreads,
              lane = thread % 32;
    const unsigned own_staging = staging + consumer * 2 * kBoxBytes;  // two staging boxes of C, used in turn
    PipelineState state;
    int box = 0;
    for (int tile_index = first; tile_index < tiles; tile_index += step) {
      const Tile tile = tile_at(tile_index, pairs, columns, group, rank);
      float d[128];
      unsigned previous_empty = 0;  // empty barrier of the k-tile whose wgmma may be pending
      for (int s = 0; s < k_tiles; ++s, state.next()) {
        sm90::mbarrier_wait(full + 8 * state.index, state.phase);
        sm90::wgmma_fence();
#pragma unroll
        for (int i = 0; i < kTileK / 16; ++i) {
          const unsigned from_a = stages_a + state.index * kBytesA + consumer * kBoxBytes + i * 32;
          const unsigned from_b = stages_b + state.index * kBytesB + i * 2048;
          sm90::wgmma<T, 256, false, true>(d, sm90::matrix_descriptor(from_a, 16, 1024),
                                           sm90::matrix_descriptor(from_b, kBoxBytes, 1024), s || i);
        }
        sm90::wgmma_commit_group();
        sm90::wgmma_wait_group<1>();
        if (s > 0 && thread < kCluster) sm90::mbarrier_arrive(previous_empty, thread);
        previous_empty = empty + 8 * state.index;
      }
      sm90::wgmma_wait_group<0>();
      if (thread < kCluster) sm90::mbarrier_arrive(previous_empty, thread);

#pragma unroll
      for (int subtile = 0; subtile < kColumns / 64; ++subtile, box ^= 1) {
        const unsigned to = own_staging + box * kBoxBytes;
        if (thread == 0) sm90::tma_store_wait_read<1>();
        sm90::named_barrier_sync(1 + consumer, kWarpgroupThreads);
#pragma unroll
        for (int j = 0; j < 4; ++j) {  // 16 columns: four 8 x 8 matrices
          unsigned r[4];
#pragma unroll
          for (int e = 0; e < 4; ++e)
            r[e] = pack(d[subtile * 32 + j * 8 + 2 * e], d[subtile * 32 + j * 8 + 2 * e + 1], T());
          const int row = thread / 32 * 16 + lane % 16, unit = j * 2 + lane / 16;  // of 16 bytes; swizzled by row
          sm90::stmatrix_x4(to + row * 128 + ((unit ^ (row & 7)) << 4), r);
        }
        sm90::fence_proxy_async();
        sm90::named_barrier_sync(1 + consumer, kWarpgroupThreads);
        if (thread == 0)
          sm90::tma_store_2d(&c, to, tile.column * kColumns + subtile * 64, tile.row * kRows + consumer * 64);
      }
    }
    if (thread == 0) sm90::tma_store_wait();
  }
  sm90::cluster_sync_relaxed();  // a block must not exit while the other may arrive at its barriers
}
