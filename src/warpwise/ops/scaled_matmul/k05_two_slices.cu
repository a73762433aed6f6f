// Sums of 256 products at a time in the matrix units: half the additions, and twice as long to wait for a part
// unnoticed.
//
// Between a warpgroup's last product and its next one lie the wait, 64 additions a thread and the next slice's barrier:
// about 300 clocks, more than the 256 that the other warpgroup's part of one slice takes (k04's loop takes 15 to 23 %
// more clocks than its products). A part of two slices takes 512. What is cut off in a part grows by 2^0.7.

#include "fp8_tiles.cuh"

// a: (m, k), as a map with boxes of 128 x 128; b: (n, k), of COLUMNS / 2 x 128; c: (m, n), of 64 x 64. Scales: one
// each, or (m,) and (n,) with BY_ROW. Grid: a multiple of kCluster, at most one block an SM. Dynamic shared memory: 1
// KiB to align + STAGES * (128 + COLUMNS) * 128 + 4 * kBytesC + 16 * STAGES bytes.
template <class A, class B, bool BY_ROW, bool BY_MAP, int COLUMNS, int STAGES>
__global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(kCluster, 1, 1)
    scaled_matmul_two_slices(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
                             const __grid_constant__ sm90::TensorMap c, __nv_bfloat16* rows,
                             const float* __restrict__ scale_a, const float* __restrict__ scale_b, int m, int n, int k,
                             int pairs, int columns, int group, int hints) {
  constexpr int kParts = COLUMNS / 128;
  extern __shared__ unsigned char raw[];
  if (threadIdx.x == 0) {
    sm90::prefetch_tensormap(&a);
    sm90::prefetch_tensormap(&b);
  }
  const Room<COLUMNS, STAGES> room(raw);
  const int rank = static_cast<int>(sm90::cluster_ctarank()), slices = (k + kDepth - 1) / kDepth;
  const Tiles tiles{pairs, columns, group};

  if (threadIdx.x < kWarpgroupThreads) {
    sm90::warpgroup_reg_dealloc<40>();
    if (threadIdx.x == 0) feed(room, a, b, tiles, slices, rank, hints);
  } else {
    sm90::warpgroup_reg_alloc<232>();
    const int own = threadIdx.x / kWarpgroupThreads - 1, thread = threadIdx.x % kWarpgroupThreads;
    Stage<STAGES> stage;
    int box = 0;
    for (int number = blockIdx.x / kCluster; number < tiles.count(); number += gridDim.x / kCluster) {
      const Tile tile = tiles.at(number, rank);
      fetch_scales(scale_a, scale_b, BY_ROW, tile.row * kRows, tile.column * COLUMNS, kRows, COLUMNS, m, n, thread);
      float sums[COLUMNS / 64][32] = {};
      for (int s = 0; s < slices; s += 2) {
        const bool both = s + 1 < slices;
        const Stage<STAGES> one = stage;
        stage.next();
        const Stage<STAGES> two = stage;
        sm90::mbarrier_wait(room.full + 8 * one.index, one.phase);
#pragma unroll
        for (int p = 0; p < kParts; ++p) {
          float part[64];
          multiply<A, B>(part, room.slice_a(one.index) + own * 64 * 128, room.slice_b(one.index) + p * 128 * 128,
                         false);
          if (both) {
            if (p == 0) sm90::mbarrier_wait(room.full + 8 * two.index, two.phase);
            multiply<A, B>(part, room.slice_a(two.index) + own * 64 * 128, room.slice_b(two.index) + p * 128 * 128,
                           true);
            if (p == kParts - 1) {
              sm90::wgmma_wait_group<1>();
              if (thread < kCluster) sm90::mbarrier_arrive(room.empty + 8 * one.index, thread);
            }
          }
          sm90::wgmma_wait_group<0>();
          sm90::warpgroup_fence_operand(part);
          if (p == kParts - 1 && thread < kCluster)
            sm90::mbarrier_arrive(room.empty + 8 * (both ? two : one).index, thread);
#pragma unroll
          for (int e = 0; e < 64; ++e) sums[p * 2 + e / 32][e % 32] += part[e];
        }
        if (both) stage.next();
      }
      const Target<BY_MAP> target{&c, {rows, m, n}};
      leave<BY_ROW>(sums, target, scale_a, scale_b, tile.row * kRows + own * 64, tile.column * COLUMNS, m, n,
                    room.c + own * 2 * kBytesC, box, own);
    }
    if (BY_MAP && thread == 0) sm90::tma_store_wait();
  }
  sm90::cluster_sync();  // nobody leaves while the other block may still arrive at its barriers
}
