// Rounds of tiles that every SM takes part in: C is cut into strips of 256 or 248 rows, and one of 128 if need be.
//
// 4096 x 4096 is 512 tiles of 256 x 128: four rounds of 128 SMs, while four idle. In strips of 248 rows it is 512 tiles
// and a strip of 128 rows, 16 tiles of 128 x 256: 132 SMs have four each. The matrix units are given C^T = B^T A^T,
// whose variable side, in steps of 8, are the rows of A: lines of K begin on 16 bytes wherever a strip does. A tile of
// 248 rows is fed and leaves as one of 256 does, its last box from row 184 on: eight rows are written twice, alike.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <warpwise/sm90/gemm.cuh>

#include "strips.cuh"

namespace sm90 = warpwise::sm90;
using sm90::kBoxBytes, sm90::kWarpgroupThreads, sm90::kTileK;

constexpr int kGroups = 2, kParts = 4, kStages = 4, kBoxes = 2;
constexpr unsigned kStage = 6 * kBoxBytes;  // bytes of a slice: boxes of B, then those of A

// 64 x 64 of C from a warpgroup's registers, which hold the transpose, into a box of shared memory: each warp has 16
// columns.
__device__ inline void fill_turned_box(unsigned box, const unsigned (&pairs)[16], int thread) {
  const int lane = thread % 32, unit = thread / 32 * 2 + lane / 8 % 2;  // of 16 bytes; swizzled by the row
#pragma unroll
  for (int j = 0; j < 4; ++j) {  // 16 rows: two pairs of 8 x 8
    const int row = j * 16 + lane / 16 * 8 + lane % 8;
    const unsigned r[4] = {pairs[4 * j], pairs[4 * j + 1], pairs[4 * j + 2], pairs[4 * j + 3]};
    sm90::stmatrix_x4_trans(box + row * 128 + ((unit ^ (row & 7)) << 4), r);
  }
}

// The first COUNT sums.
template <int COUNT>
__device__ __forceinline__ float (&first(float (&d)[128])) [COUNT] { return reinterpret_cast<float (&)[COUNT]>(d); }

// a: (m, k), k along its rows; b: (n, k) or, MN_MAJOR, (k, n); c: (m, n): maps with boxes of 64 x 64. bands of 128
// columns, strips, wide, flats: Strips, m rows in all; group: of the tiles' order. Grid: any number of blocks. Dynamic
// shared memory: 1 KiB to align, kStages slices, kBoxes boxes a warpgroup to leave through, 16 bytes a stage.
template <class T, bool MN_MAJOR>
__global__ void __launch_bounds__((1 + kGroups) * 128, 1)
matmul_strips(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
              const __grid_constant__ sm90::TensorMap c, int k, int bands, int strips, int group_of_bands, int wide,
              int flats) {
  extern __shared__ unsigned char raw[];
  const unsigned ring = (warpwise::shared_address(raw) + 1023) & ~1023u;  // a swizzled unit is 1 KiB
  const unsigned leaving = ring + kStages * kStage;
  const unsigned full = leaving + kGroups * kBoxes * kBoxBytes, empty = full + 8 * kStages;  // barriers: arrived, read
  const Strips<sm90::TileScheduler> all{{bands, strips, group_of_bands}, wide, flats};
  const int slices = (k + kTileK - 1) / kTileK;

  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      sm90::mbarrier_init(full + 8 * s, 1);
      sm90::mbarrier_init(empty + 8 * s, kGroups);
    }
    sm90::fence_mbarrier_init();
  }
  __syncthreads();

  if (threadIdx.x < kWarpgroupThreads) {
    sm90::warpgroup_reg_dealloc<40>();
    if (threadIdx.x == 0) {
      sm90::PipelineState<kStages> at{0, 1};  // every place is free at first
      all.each(blockIdx.x, gridDim.x, [&](auto tile, int row, int column) {
        using Of = decltype(tile);
        for (int s = 0; s < slices; ++s, at.next()) {
          const unsigned arrived = full + 8 * at.stage, to = ring + at.stage * kStage;
          sm90::mbarrier_wait(empty + 8 * at.stage, at.phase);
          sm90::mbarrier_arrive_expect_tx(arrived, (Of::boxes_b + Of::boxes_a) * kBoxBytes);
#pragma unroll 1
          for (int i = 0; i < Of::boxes_b; ++i)
            sm90::tma_load_operand<MN_MAJOR, false>(to + i * kBoxBytes, &b, arrived, column + i * 64, s * kTileK, 0);
#pragma unroll 1
          for (int i = 0; i < Of::boxes_a; ++i)
            sm90::tma_load_2d(to + (Of::boxes_b + i) * kBoxBytes, &a, arrived, s * kTileK, row + i * 64);
        }
      });
    }
    return;
  }

  sm90::warpgroup_reg_alloc<232>();
  const int group = threadIdx.x / kWarpgroupThreads - 1, thread = threadIdx.x % kWarpgroupThreads;
  sm90::PipelineState<kStages> at;
  unsigned before = 0;        // the barrier of the slice whose products may still run
  unsigned kept[kParts][16];  // the last tile, rounded, and where its boxes belong
  int kept_row = 0, kept_column = 0, kept_last = 0, next = 0;
  bool keeps = false, kept_turned = false;

  const auto slice = [&](auto tile, float (&d)[128], int s) {
    using Of = decltype(tile);
    sm90::mbarrier_wait(full + 8 * at.stage, at.phase);
    const unsigned boxes_b = ring + at.stage * kStage, boxes_a = boxes_b + Of::boxes_b * kBoxBytes;
    sm90::wgmma_fence();
#pragma unroll
    for (int i = 0; i < kTileK / 16; ++i) {
      if constexpr (Of::turned)
        sm90::wgmma<T, Of::rows, MN_MAJOR, false>(first<Of::rows / 2>(d),
                                                  sm90::operand_descriptor<MN_MAJOR>(boxes_b + group * kBoxBytes, i),
                                                  sm90::operand_descriptor<false>(boxes_a, i), s || i);
      else
        sm90::wgmma<T, 256, false, MN_MAJOR>(d, sm90::operand_descriptor<false>(boxes_a + group * kBoxBytes, i),
                                             sm90::operand_descriptor<MN_MAJOR>(boxes_b, i), s || i);
    }
    sm90::wgmma_commit_group();
    sm90::wgmma_wait_group<1>();
    if (s > 0 && thread == 0) sm90::mbarrier_arrive(before, 0);
    before = empty + 8 * at.stage;
    at.next();
  };
  const auto write = [&](int part) {
    if (!keeps) return;
    if (thread == 0) sm90::tma_store_wait_read<kBoxes - 1>();
    sm90::named_barrier_sync(1 + group, kWarpgroupThreads);
    const unsigned box = leaving + (group * kBoxes + next) * kBoxBytes;
    next ^= 1;
    if (kept_turned)
      fill_turned_box(box, kept[part], thread);
    else
      sm90::registers_to_shared(box, kept[part], thread);
    sm90::fence_proxy_async();
    sm90::named_barrier_sync(1 + group, kWarpgroupThreads);
    const int down = kept_turned ? min(part * 64, kept_last) : 0, across = kept_turned ? 0 : part * 64;
    if (thread == 0) sm90::tma_store_2d(&c, box, kept_column + across, kept_row + down);
  };
  all.each(blockIdx.x, gridDim.x, [&](auto tile, int row, int column) {
    using Of = decltype(tile);
    float d[128];
    slice(tile, d, 0);
    (Of::turned ? column : row) += group * 64;
    asm volatile("" : "+r"(row), "+r"(column));  // known here, under the products, and not when the tile ends
    write(0);
#pragma unroll
    for (int part = 1; part < kParts; ++part) {
      if (part < slices) slice(tile, d, part);
      write(part);
    }
    for (int s = kParts; s < slices; ++s) slice(tile, d, s);
    sm90::wgmma_wait_group<0>();
    if (thread == 0) sm90::mbarrier_arrive(before, 0);

    kept_row = row, kept_column = column, kept_last = Of::rows - 64;
    keeps = true, kept_turned = Of::turned;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const int from = !Of::turned || part * 32 < Of::rows / 2 - 32 ? part * 32 : Of::rows / 2 - 32;
#pragma unroll
      for (int i = 0; i < 16; ++i) kept[part][i] = sm90::rounded(d[from + 2 * i], d[from + 2 * i + 1], T());
    }
  });
#pragma unroll
  for (int part = 0; part < kParts; ++part) write(part);
  if (thread == 0) sm90::tma_store_wait_read<0>();  // the kernel's end waits for the rest
}
