// Sums of 128 products again, and two parts of 64 columns in flight: there is work while a part is waited for and
// added.
//
// A warpgroup of k04 has nothing to do for the matrix units from the moment that it waits until its additions are done,
// and the other one's 256 clocks of products do not quite cover that. Here a part is 64 columns, and the next one is
// begun before the last is waited for. Products of 64 columns would read A four times as often from shared memory, as
// much again as B, more than it gives: A's 64 x 128 slice is therefore gathered into registers, 16 a thread, once.

#include "fp8_tiles.cuh"

// a: (m, k), as a map with boxes of 128 x 128; b: (n, k), of COLUMNS / 2 x 128; c: (m, n), of 64 x 64. Scales: one
// each, or (m,) and (n,) with BY_ROW. Grid: a multiple of kCluster, at most one block an SM. Dynamic shared memory: 1
// KiB to align + STAGES * (128 + COLUMNS) * 128 + 4 * kBytesC + 16 * STAGES bytes.
template <class A, class B, bool BY_ROW, bool BY_MAP, int COLUMNS, int STAGES>
__global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(kCluster, 1, 1)
    scaled_matmul_parts(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
                        const __grid_constant__ sm90::TensorMap c, __nv_bfloat16* rows,
                        const float* __restrict__ scale_a, const float* __restrict__ scale_b, int m, int n, int k,
                        int pairs, int columns, int group, int hints) {
  constexpr int kParts = COLUMNS / 64;
  static_assert(kParts % 2 == 0, "parts lie in two sets of registers in turn");
  extern __shared__ unsigned char raw[];
  const Room<COLUMNS, STAGES> room(raw);
  const int rank = static_cast<int>(sm90::cluster_ctarank()), slices = (k + kDepth - 1) / kDepth;
  const Tiles tiles{pairs, columns, group};

  if (threadIdx.x < kWarpgroupThreads) {
    sm90::warpgroup_reg_dealloc<40>();
    if (threadIdx.x == 0) feed(room, a, b, tiles, slices, rank, hints);
  } else {
    sm90::warpgroup_reg_alloc<232>();
    const int own = threadIdx.x / kWarpgroupThreads - 1, thread = threadIdx.x % kWarpgroupThreads, lane = thread % 32;
    Stage<STAGES> stage;
    int box = 0;
    for (int number = blockIdx.x / kCluster; number < tiles.count(); number += gridDim.x / kCluster) {
      const Tile tile = tiles.at(number, rank);
      fetch_scales(scale_a, scale_b, BY_ROW, tile.row * kRows, tile.column * COLUMNS, kRows, COLUMNS, m, n, thread);
      float sums[kParts][32] = {}, parts[2][32];
      unsigned left[kDepth / 32][4];  // this thread's bytes of A's slice
      const auto gather = [&] {
        sm90::mbarrier_wait(room.full + 8 * stage.index, stage.phase);
        const int row = own * 64 + thread / 32 * 16 + lane % 16;
        const unsigned from = room.slice_a(stage.index) + row * 128;
#pragma unroll
        for (int i = 0; i < kDepth / 32; ++i)
          warpwise::ldmatrix_x4(left[i], from + ((i * 2 + lane / 16) ^ (row & 7)) * 16);
      };
      const auto begin = [&](int part) {
        sm90::wgmma_fence();
#pragma unroll
        for (int i = 0; i < kDepth / 32; ++i) {
          const unsigned from = room.slice_b(stage.index) + part * 64 * 128 + i * 32;
          sm90::wgmma_rs<sm90::Pair<A, B>>(parts[part % 2], left[i], sm90::matrix_descriptor(from, 16, 1024), i > 0);
        }
        sm90::wgmma_commit_group();
      };
      const auto add = [&](int part) {
#pragma unroll
        for (int e = 0; e < 32; ++e) sums[part][e] += parts[part % 2][e];
      };

      gather();
      begin(0);
      for (int s = 0;;) {
#pragma unroll
        for (int part = 1; part < kParts; ++part) {
          begin(part);
          sm90::wgmma_wait_group<1>();
          sm90::warpgroup_fence_operand(parts[(part - 1) % 2]);
          add(part - 1);
        }
        sm90::wgmma_wait_group<0>();
        sm90::warpgroup_fence_operand(parts[1]);
        if (thread < kCluster) sm90::mbarrier_arrive(room.empty + 8 * stage.index, thread);
        stage.next();
        if (++s == slices) break;
        gather();
        begin(0);
        add(kParts - 1);  // while the next slice's first part is under way
      }
      add(kParts - 1);
      const Target<BY_MAP> target{&c, {rows, m, n}};
      leave<BY_ROW>(sums, target, scale_a, scale_b, tile.row * kRows + own * 64, tile.column * COLUMNS, m, n,
                    room.c + own * 2 * kBytesC, box, own);
    }
    if (BY_MAP && thread == 0) sm90::tma_store_wait();
  }
  sm90::cluster_sync();  // nobody leaves while the other block may still arrive at its barriers
}
