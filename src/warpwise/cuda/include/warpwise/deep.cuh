// A product by Hopper's warpgroups of factors that both lie along K, for elements of 1 and 4 bytes: the matrix units
// read 2-byte elements across K too, these alone along it. Results are 4 bytes, int of int8 and float of TF32.
//
// One warpgroup feeds slices of 128 bytes of K through the copy engine, two multiply tiles of 64 x 256 each; two blocks
// of a cluster take tiles below each other and share what they load of B; a block goes from tile to tile.
#pragma once

#include <warpwise/rows.cuh>

namespace warpwise {
namespace deep {

constexpr int kCluster = 2, kStages = 4, kRows = 128, kColumns = 256;
constexpr int kThreads = 384, kGroupThreads = 128;  // warpgroup 0 feeds, 1 and 2 take 64 rows each
constexpr unsigned kBox = 128 * 128;                // bytes of 128 rows, 128 bytes deep
constexpr unsigned kBytesA = kBox, kBytesB = 2 * kBox, kBytesC = 64 * 32 * 4;

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

__device__ inline int bits(int value) { return value; }
__device__ inline int bits(float value) { return __float_as_int(value); }

// Element: signed char or float. a: (m, k), b: (n, k), as maps with boxes of 128 rows, 128 bytes deep; c: (m, n), of 64
// x
// 32. `shared`: 1 KiB to align + kStages * (kBytesA + kBytesB) + 4 * kBytesC + 16 * kStages bytes. Grid: a multiple of
// kCluster, at most one block an SM, of kThreads.
template <class Element, class C>
__device__ inline void multiply(const hopper::TensorMap& a, const hopper::TensorMap& b, const C& c, int k, int pairs,
                                int columns, int group, unsigned shared) {
  using Sum = typename hopper::ElementOf<Element>::Sum;
  constexpr int kDepth = 128 / sizeof(Element);
  const unsigned base = (shared + 1023) & ~1023u;  // a swizzled unit is 1 KiB
  const unsigned tiles_a = base, tiles_b = tiles_a + kStages * kBytesA, tiles_c = tiles_b + kStages * kBytesB;
  const unsigned full = tiles_c + 4 * kBytesC, empty = full + 8 * kStages;  // barriers: slices arrived, places free
  const int rank = static_cast<int>(hopper::cluster_rank()), slices = (k + kDepth - 1) / kDepth;
  const int first = blockIdx.x / kCluster, step = gridDim.x / kCluster, tiles = pairs * columns;

  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      hopper::barrier_init(full + 8 * s, 1);
      hopper::barrier_init(empty + 8 * s, 2 * kCluster);  // both multiplying warpgroups of both blocks
    }
    hopper::barrier_init_fence();
  }
  hopper::cluster_sync();

  if (threadIdx.x < kGroupThreads) {
    hopper::give_registers<40>();
    if (threadIdx.x == 0) {
      Stage stage{0, 1};  // every place is free at first
      for (int number = first; number < tiles; number += step) {
        const Tile tile = tile_of(number, pairs, columns, group, rank);
        for (int s = 0; s < slices; ++s, stage.next()) {
          const unsigned arrived = full + 8 * stage.index;
          hopper::barrier_wait(empty + 8 * stage.index, stage.phase);
          hopper::barrier_expect(arrived, kBytesA + kBytesB);
          hopper::load_box(tiles_a + stage.index * kBytesA, &a, arrived, s * kDepth, tile.row * kRows);
          hopper::load_box_multicast(tiles_b + stage.index * kBytesB + rank * kBox, &b, arrived, s * kDepth,
                                     tile.column * kColumns + rank * 128, 3);
        }
      }
    }
  } else {
    hopper::take_registers<232>();
    const int own = threadIdx.x / kGroupThreads - 1, thread = threadIdx.x % kGroupThreads, lane = thread % 32;
    const unsigned tiles_own = tiles_c + own * 2 * kBytesC;  // two boxes of C to leave through, in turn
    Stage stage;
    int box = 0;
    for (int number = first; number < tiles; number += step) {
      const Tile tile = tile_of(number, pairs, columns, group, rank);
      Sum d[128];
      unsigned before = 0;  // the barrier of the slice whose products may still run
      for (int s = 0; s < slices; ++s, stage.next()) {
        hopper::barrier_wait(full + 8 * stage.index, stage.phase);
        hopper::products_begin();
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const unsigned from_a = tiles_a + stage.index * kBytesA + own * 64 * 128 + i * 32;
          const unsigned from_b = tiles_b + stage.index * kBytesB + i * 32;
          hopper::product<Element, 256>(d, hopper::matrix(from_a, 16, 1024), hopper::matrix(from_b, 16, 1024), s || i);
        }
        hopper::products_commit();
        hopper::products_wait<1>();
        if (s > 0 && thread < kCluster) hopper::barrier_arrive(before, thread);
        before = empty + 8 * stage.index;
      }
      hopper::products_wait<0>();
      if (thread < kCluster) hopper::barrier_arrive(before, thread);

#pragma unroll
      for (int part = 0; part < kColumns / 32; ++part, box ^= 1) {
        const unsigned to = tiles_own + box * kBytesC;
        if constexpr (hopper::kMapped<C>) {
          if (thread == 0) hopper::stores_have_read<1>();
          hopper::named_barrier(1 + own, kGroupThreads);
        } else {
          __syncwarp();  // a warp writes and reads its own 16 rows
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {  // 8 columns: two units of 16 bytes, swizzled by the row
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const int row = thread / 32 * 16 + half * 8 + lane / 4, unit = j * 2 + lane % 4 / 2, at = part * 16 + j * 4;
            hopper::store_pair(to + row * 128 + ((unit ^ (row & 7)) << 4) + lane % 2 * 8, bits(d[at + half * 2]),
                               bits(d[at + half * 2 + 1]));
          }
        }
        if constexpr (hopper::kMapped<C>) {
          hopper::async_proxy_fence();
          hopper::named_barrier(1 + own, kGroupThreads);
          if (thread == 0) hopper::store_box(&c, to, tile.column * kColumns + part * 32, tile.row * kRows + own * 64);
        } else {
          const int warp_row = thread / 32 * 16;
          __syncwarp();
          hopper::write_rows(to + warp_row * 128, c, tile.row * kRows + own * 64 + warp_row,
                             tile.column * kColumns + part * 32);
        }
      }
    }
    if (thread == 0) hopper::stores_are_done();
  }
  hopper::cluster_sync();  // nobody leaves while the other block may still arrive at its barriers
}

}  // namespace deep
}  // namespace warpwise
