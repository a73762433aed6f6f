// Products of many matrices by Hopper's warpgroups, two bytes: tiles of all of them one after the other, each of which
// leaves under the next one's products. Matrices are the first dimension of maps of three. Include cuda_bf16.h or
// cuda_fp16.h first.
#pragma once

#include <warpwise/sm90/gemm.cuh>

#include "boxes.cuh"

namespace warpwise {
namespace many {

namespace sm90 = warpwise::sm90;
using sm90::kBoxBytes, sm90::kWarpgroupThreads, sm90::kTileK, sm90::TensorMap;

// 64 x 64 of C, rounded, from a warpgroup's registers to a box of shared memory that is free.
__device__ inline void registers_to_shared(unsigned box, const unsigned (&pairs)[16]) {
  const int thread = threadIdx.x % kWarpgroupThreads, lane = thread % 32, own_row = thread / 32 * 16 + lane % 16;
#pragma unroll
  for (int j = 0; j < 4; ++j) {          // 16 columns: two pairs of 8 x 8
    const int unit = j * 2 + lane / 16;  // of 16 bytes; swizzled by the row
    const unsigned r[4] = {pairs[4 * j], pairs[4 * j + 1], pairs[4 * j + 2], pairs[4 * j + 3]};
    sm90::stmatrix_x4(box + own_row * 128 + ((unit ^ (own_row & 7)) << 4), r);
  }
}

// What Work tells of a tile: its place in its matrix, in tiles, and the first coordinates of the boxes of A, B and C.
struct Tile {
  int row, column, a, b, c;
};

// C = A B for each of many matrices. A: (.., m, k) or, a_mn_major, (.., k, m); B: (.., n, k) or, b_mn_major, (.., k,
// n); C:
// (.., m, n): maps with boxes of 1 x 64 x 64. P: a GemmConfig without a cluster. Work: `tiles()`, and of a tile
// `at(number)`, `slices(number)`, the first of them from depth `first_depth(number)` on. The kernel: P::threads
// threads, one block an SM; a grid of any number of blocks. Dynamic shared memory: 1 KiB to align, the ring, kBoxes
// boxes for each warpgroup that multiplies and two barriers a stage. AT_ONCE: sums are short, and a tile leaves whole
// when it is done, from a box for each part of it, in place of a part at a time under the next tile's products, from
// P::boxes.
template <class P, bool AT_ONCE, class Work>
__device__ inline void multiply(const TensorMap& a, const TensorMap& b, const TensorMap& c, const Work& work) {
  constexpr int kBoxes = AT_ONCE ? P::parts : P::boxes;
  extern __shared__ unsigned char raw[];
  const unsigned base = (warpwise::shared_address(raw) + 1023) & ~1023u;  // a swizzled unit is 1 KiB
  const unsigned slices_a = base, slices_b = slices_a + P::stages * P::bytes_a,
                 leaving = slices_b + P::stages * P::bytes_b;
  const unsigned full = leaving + P::groups * kBoxes * kBoxBytes,
                 empty = full + 8 * P::stages;  // barriers: arrived, read

  if (threadIdx.x == 0) {
    for (int s = 0; s < P::stages; ++s) {
      sm90::mbarrier_init(full + 8 * s, 1);
      sm90::mbarrier_init(empty + 8 * s, P::groups);
    }
    sm90::fence_mbarrier_init();
  }
  __syncthreads();

  if (threadIdx.x < kWarpgroupThreads) {
    if constexpr (P::groups > 1) sm90::warpgroup_reg_dealloc<40>();
    if (threadIdx.x > 0) return;
    sm90::PipelineState<P::stages> at{0, 1};  // every place is free at first
    for (int number = blockIdx.x; number < work.tiles(); number += gridDim.x) {
      const Tile tile = work.at(number);
      const int row = tile.row * P::bm, column = tile.column * P::bn, slices = work.slices(number);
      for (int s = 0, depth = work.first_depth(number); s < slices; ++s, depth += kTileK, at.next()) {
        const unsigned arrived = full + 8 * at.stage;
        sm90::mbarrier_wait(empty + 8 * at.stage, at.phase);
        sm90::mbarrier_arrive_expect_tx(arrived, P::bytes_a + P::bytes_b);
#pragma unroll 1
        for (int i = 0; i < P::bm / 64; ++i)
          tma_load_2d(slices_a + at.stage * P::bytes_a + i * kBoxBytes, &a, arrived,
                      P::a_mn_major ? row + i * 64 : depth, P::a_mn_major ? depth : row + i * 64, tile.a);
#pragma unroll 1
        for (int i = 0; i < P::bn / 64; ++i)
          tma_load_2d(slices_b + at.stage * P::bytes_b + i * kBoxBytes, &b, arrived,
                      P::b_mn_major ? column + i * 64 : depth, P::b_mn_major ? depth : column + i * 64, tile.b);
      }
    }
    return;
  }

  if constexpr (P::groups > 1) sm90::warpgroup_reg_alloc<232>();
  const int group = threadIdx.x / kWarpgroupThreads - 1, group_m = group % P::gm, group_n = group / P::gm;
  const int thread = threadIdx.x % kWarpgroupThreads;
  const unsigned own_a = slices_a + group_m * P::wgmmas * kBoxBytes,
                 own_b = slices_b + group_n * (P::width / 64) * kBoxBytes;
  sm90::PipelineState<P::stages> at;
  unsigned before = 0;  // the barrier of the slice whose products may still run
  float d[P::wgmmas][P::width / 2];
  unsigned kept[P::parts][16];  // the last tile, rounded, and where it belongs
  int kept_row = 0, kept_column = 0, kept_matrix = 0, box = 0;
  bool keeps = false;

  const auto slice = [&](int s) {
    sm90::mbarrier_wait(full + 8 * at.stage, at.phase);
    sm90::wgmma_fence();
#pragma unroll
    for (int i = 0; i < kTileK / 16; ++i) {
      const unsigned long long part_b = sm90::operand_descriptor<P::b_mn_major>(own_b + at.stage * P::bytes_b, i);
#pragma unroll
      for (int p = 0; p < P::wgmmas; ++p)
        sm90::wgmma<typename P::Element, P::width, P::a_mn_major, P::b_mn_major>(
            d[p], sm90::operand_descriptor<P::a_mn_major>(own_a + at.stage * P::bytes_a + p * kBoxBytes, i), part_b,
            s || i);
    }
    sm90::wgmma_commit_group();
    sm90::wgmma_wait_group<1>();
    if (s > 0 && thread == 0) sm90::mbarrier_arrive(before, 0);
    before = empty + 8 * at.stage;
    at.next();
  };
  const auto store = [&](int part, unsigned from) {
    tma_store_2d(&c, from, kept_column + part % (P::width / 64) * 64, kept_row + part / (P::width / 64) * 64,
                 kept_matrix);
  };
  const auto write = [&](int part) {
    const unsigned to = leaving + (group * kBoxes + box) * kBoxBytes;
    if (thread == 0) sm90::tma_store_wait_read<kBoxes - 1>();
    sm90::named_barrier_sync(1 + group, kWarpgroupThreads);
    registers_to_shared(to, kept[part]);
    sm90::fence_proxy_async();
    sm90::named_barrier_sync(1 + group, kWarpgroupThreads);
    if (thread == 0) store(part, to);
    if (kBoxes == 2) box ^= 1;
  };
  const auto write_all = [&] {
    const unsigned to = leaving + group * kBoxes * kBoxBytes;
    if (thread == 0) sm90::tma_store_wait_read<0>();
    sm90::named_barrier_sync(1 + group, kWarpgroupThreads);
#pragma unroll
    for (int part = 0; part < P::parts; ++part) registers_to_shared(to + part * kBoxBytes, kept[part]);
    sm90::fence_proxy_async();
    sm90::named_barrier_sync(1 + group, kWarpgroupThreads);
    if (thread == 0) {
#pragma unroll
      for (int part = 0; part < P::parts; ++part) store(part, to + part * kBoxBytes);
    }
  };

  for (int number = blockIdx.x; number < work.tiles(); number += gridDim.x) {
    const int slices = work.slices(number);
    if (slices > 0) slice(0);
    const Tile tile = work.at(number);
    int row = (tile.row * P::gm + group_m) * P::wgmmas * 64, matrix = tile.c;
    int column = (tile.column * P::gn + group_n) * P::width;
    asm volatile("" : "+r"(row), "+r"(column), "+r"(matrix));  // known here, under the products
    if (keeps) write(0);
#pragma unroll
    for (int part = 1; part < P::parts; ++part) {
      if (part < slices) slice(part);
      if (keeps) write(part);
    }
    for (int s = P::parts; s < slices; ++s) slice(s);
    sm90::wgmma_wait_group<0>();
    if (slices > 0 && thread == 0) sm90::mbarrier_arrive(before, 0);
    kept_row = row, kept_column = column, kept_matrix = matrix;
    keeps = !AT_ONCE;
#pragma unroll
    for (int part = 0; part < P::parts; ++part) {
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const float* const pair = &d[part / (P::width / 64)][part % (P::width / 64) * 32 + 2 * i];
        kept[part][i] = slices == 0 ? 0 : sm90::rounded(pair[0], pair[1], typename P::Element());
      }
    }
    if (AT_ONCE) write_all();
  }
  if (keeps) {
#pragma unroll
    for (int part = 0; part < P::parts; ++part) write(part);
  }
  if (thread == 0) sm90::tma_store_wait_read<0>();  // the kernel's end waits for the rest
}

}  // namespace many
}  // namespace warpwise
