// Hopper's way: one warpgroup feeds tiles through the copy engine, two multiply them on the tensor cores,
// asynchronously.
//
// No thread computes an address of A or B or holds an element of them: boxes of 64 x 64 arrive swizzled in shared
// memory and the matrix units read them there. Two blocks of a cluster take tiles below each other and each loads one
// half of their common part of B for both. 128 x 256 sums lie in the registers of 256 threads, which the feeding
// warpgroup has given up. A block goes from tile to tile, its next slices arriving while it writes the last tile.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/cluster.cuh>
#include <warpwise/sm90/mbarrier.cuh>
#include <warpwise/sm90/tma.cuh>
#include <warpwise/sm90/warpgroup.cuh>
#include <warpwise/sm90/wgmma.cuh>

namespace sm90 = warpwise::sm90;

constexpr int kCluster = 2, kStages = 4, kRows = 128, kColumns = 256, kDepth = 64;
constexpr int kThreads = 384, kWarpgroupThreads = 128;  // warpgroup 0 feeds, 1 and 2 take 64 rows each
constexpr unsigned kBoxBytes = 64 * 64 * 2;             // bytes of 64 rows x 64 columns
constexpr unsigned kBytesA = 2 * kBoxBytes, kBytesB = 4 * kBoxBytes;

struct Tile {
  int row, column;  // in tiles
};

// Tiles in groups of `group` pairs of rows, column by column inside: what is in flight shares L2.
__device__ inline Tile tile_of(int number, int pairs, int columns, int group, int rank) {
  const int per_group = group * columns, first = number / per_group * group, in_group = min(group, pairs - first);
  return {(first + number % per_group % in_group) * kCluster + rank, number % per_group / in_group};
}

struct Stage {  // of the ring of slices, and the parity of its phase
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

// a: (m, k), b: (k, n), c: (m, n), row-major, as maps with boxes of 64 x 64. Grid: a multiple of kCluster, at most one
// block an SM. Dynamic shared memory: 1 KiB to align + kStages * (kBytesA + kBytesB) + 4 * kBoxBytes + 16 * kStages
// bytes.
template <class T>
__global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(kCluster, 1, 1)
    matmul_warpgroups(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
                      const __grid_constant__ sm90::TensorMap c, int k, int pairs, int columns, int group) {
  extern __shared__ unsigned char raw[];
  const unsigned base = (warpwise::shared_address(raw) + 1023) & ~1023u;  // a swizzled unit is 1 KiB
  const unsigned tiles_a = base, tiles_b = tiles_a + kStages * kBytesA, tiles_c = tiles_b + kStages * kBytesB;
  const unsigned full = tiles_c + 4 * kBoxBytes, empty = full + 8 * kStages;  // barriers: slices arrived, places free
  const int rank = static_cast<int>(sm90::cluster_ctarank()), slices = (k + kDepth - 1) / kDepth;
  const int first = blockIdx.x / kCluster, step = gridDim.x / kCluster, tiles = pairs * columns;

  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      sm90::mbarrier_init(full + 8 * s, 1);
      sm90::mbarrier_init(empty + 8 * s, 2 * kCluster);  // both multiplying warpgroups of both blocks
    }
    sm90::fence_mbarrier_init();
  }
  sm90::cluster_sync_relaxed();

  if (threadIdx.x < kWarpgroupThreads) {
    sm90::warpgroup_reg_dealloc<40>();
    if (threadIdx.x == 0) {
      Stage stage{0, 1};  // every place is free at first
      for (int number = first; number < tiles; number += step) {
        const Tile tile = tile_of(number, pairs, columns, group, rank);
        for (int s = 0; s < slices; ++s, stage.next()) {
          const unsigned arrived = full + 8 * stage.index, to_a = tiles_a + stage.index * kBytesA;
          sm90::mbarrier_wait(empty + 8 * stage.index, stage.phase);
          sm90::mbarrier_arrive_expect_tx(arrived, kBytesA + kBytesB);
          for (int i = 0; i < 2; ++i)
            sm90::tma_load_2d(to_a + i * kBoxBytes, &a, arrived, s * kDepth, tile.row * kRows + i * 64);
          for (int i = rank * 2; i < rank * 2 + 2; ++i)
            sm90::tma_load_2d_multicast(tiles_b + stage.index * kBytesB + i * kBoxBytes, &b, arrived,
                                        tile.column * kColumns + i * 64, s * kDepth, 3);
        }
      }
    }
  } else {
    sm90::warpgroup_reg_alloc<232>();
    const int own = threadIdx.x / kWarpgroupThreads - 1, thread = threadIdx.x % kWarpgroupThreads, lane = thread % 32;
    const unsigned tiles_own = tiles_c + own * 2 * kBoxBytes;  // two boxes of C to leave through, in turn
    Stage stage;
    int box = 0;
    for (int number = first; number < tiles; number += step) {
      const Tile tile = tile_of(number, pairs, columns, group, rank);
      float d[128];
      unsigned before = 0;  // the barrier of the slice whose products may still run
      for (int s = 0; s < slices; ++s, stage.next()) {
        sm90::mbarrier_wait(full + 8 * stage.index, stage.phase);
        sm90::wgmma_fence();
#pragma unroll
        for (int i = 0; i < kDepth / 16; ++i) {
          const unsigned from_a = tiles_a + stage.index * kBytesA + own * kBoxBytes + i * 32;
          const unsigned from_b = tiles_b + stage.index * kBytesB + i * 2048;
          sm90::wgmma<T, 256, false, true>(d, sm90::matrix_descriptor(from_a, 16, 1024),
                                           sm90::matrix_descriptor(from_b, kBoxBytes, 1024), s || i);
        }
        sm90::wgmma_commit_group();
        sm90::wgmma_wait_group<1>();
        if (s > 0 && thread < kCluster) sm90::mbarrier_arrive(before, thread);
        before = empty + 8 * stage.index;
      }
      sm90::wgmma_wait_group<0>();
      if (thread < kCluster) sm90::mbarrier_arrive(before, thread);

#pragma unroll
      for (int part = 0; part < kColumns / 64; ++part, box ^= 1) {
        const unsigned to = tiles_own + box * kBoxBytes;
        if (thread == 0) sm90::tma_store_wait_read<1>();
        sm90::named_barrier_sync(1 + own, kWarpgroupThreads);
#pragma unroll
        for (int j = 0; j < 4; ++j) {  // 16 columns: two pairs of 8 x 8
          unsigned r[4];
#pragma unroll
          for (int e = 0; e < 4; ++e) r[e] = pack(d[part * 32 + j * 8 + 2 * e], d[part * 32 + j * 8 + 2 * e + 1], T());
          const int row = thread / 32 * 16 + lane % 16, unit = j * 2 + lane / 16;  // of 16 bytes; swizzled by the row
          sm90::stmatrix_x4(to + row * 128 + ((unit ^ (row & 7)) << 4), r);
        }
        sm90::fence_proxy_async();
        sm90::named_barrier_sync(1 + own, kWarpgroupThreads);
        if (thread == 0) sm90::tma_store_2d(&c, to, tile.column * kColumns + part * 64, tile.row * kRows + own * 64);
      }
    }
    if (thread == 0) sm90::tma_store_wait();
  }
  sm90::cluster_sync_relaxed();  // nobody leaves while the other block may still arrive at its barriers
}
