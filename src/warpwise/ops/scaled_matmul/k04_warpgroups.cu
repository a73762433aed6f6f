// Hopper's own fp8 products, with float32 sums: two warpgroups multiply in turn and add while the other multiplies.
//
// The matrix units keep 13 bits after the point of what they sum, so that a sum may not stay in them: after every slice
// of 128 products the part that they made is added to sums in ordinary registers. 128 x 256 such sums take half of the
// register file; for the parts a quarter is left. A warpgroup therefore multiplies one half of its 64 x 256 tile, waits
// and adds, 64 additions a thread, which take a quarter of the time that the other warpgroup's products take.
//
// As for 2-byte types, one warpgroup feeds slices through the copy engine, two blocks of a cluster take tiles below
// each other and share what they load of B, and a block goes from tile to tile.

#include "fp8_tiles.cuh"

constexpr int kColumns = 256, kStages = 4;

// a: (m, k), b: (n, k), as maps with boxes of 128 x 128; c: (m, n), of 64 x 64. Scales: one each, or (m,) and (n,) with
// BY_ROW. Grid: a multiple of kCluster, at most one block an SM. Dynamic shared memory: 1 KiB to align + kStages *
// (128 + kColumns) * 128 + 4 * kBytesC + 16 * kStages bytes.
template <class A, class B, bool BY_ROW, bool BY_MAP>
__global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(kCluster, 1, 1)
    scaled_matmul_warpgroups(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
                             const __grid_constant__ sm90::TensorMap c, __nv_bfloat16* rows,
                             const float* __restrict__ scale_a, const float* __restrict__ scale_b, int m, int n, int k,
                             int pairs, int columns, int group, int hints) {
  extern __shared__ unsigned char raw[];
  const Room<kColumns, kStages> room(raw);
  const int rank = static_cast<int>(sm90::cluster_ctarank()), slices = (k + kDepth - 1) / kDepth;
  const Tiles tiles{pairs, columns, group};

  if (threadIdx.x < kWarpgroupThreads) {
    sm90::warpgroup_reg_dealloc<40>();
    if (threadIdx.x == 0) feed(room, a, b, tiles, slices, rank, hints);
  } else {
    sm90::warpgroup_reg_alloc<232>();
    const int own = threadIdx.x / kWarpgroupThreads - 1, thread = threadIdx.x % kWarpgroupThreads;
    Stage<kStages> stage;
    int box = 0;
    for (int number = blockIdx.x / kCluster; number < tiles.count(); number += gridDim.x / kCluster) {
      const Tile tile = tiles.at(number, rank);
      fetch_scales(scale_a, scale_b, BY_ROW, tile.row * kRows, tile.column * kColumns, kRows, kColumns, m, n, thread);
      float sums[kColumns / 64][32] = {};
      for (int s = 0; s < slices; ++s, stage.next()) {
        sm90::mbarrier_wait(room.full + 8 * stage.index, stage.phase);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float part[64];
          multiply<A, B>(part, room.slice_a(stage.index) + own * 64 * 128, room.slice_b(stage.index) + half * 128 * 128,
                         false);
          sm90::wgmma_wait_group<0>();
          sm90::warpgroup_fence_operand(part);
          if (half == 1 && thread < kCluster) sm90::mbarrier_arrive(room.empty + 8 * stage.index, thread);
#pragma unroll
          for (int e = 0; e < 64; ++e) sums[half * 2 + e / 32][e % 32] += part[e];
        }
      }
      const Target<BY_MAP> target{&c, {rows, m, n}};
      leave<BY_ROW>(sums, target, scale_a, scale_b, tile.row * kRows + own * 64, tile.column * kColumns, m, n,
                    room.c + own * 2 * kBytesC, box, own);
    }
    if (BY_MAP && thread == 0) sm90::tma_store_wait();
  }
  sm90::cluster_sync();  // nobody leaves while the other block may still arrive at its barriers
}
