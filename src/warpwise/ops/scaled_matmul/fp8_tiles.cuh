// What the kernels for Hopper share: tiles and their order, the ring of slices and who fills it, how a tile leaves.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <warpwise/sm90/cluster.cuh>
#include <warpwise/sm90/mbarrier.cuh>
#include <warpwise/sm90/unaligned_store.cuh>
#include <warpwise/sm90/warpgroup.cuh>
#include <warpwise/sm90/wgmma.cuh>

#include "policies.cuh"

constexpr int kCluster = 2, kRows = 128, kDepth = 128;
constexpr int kThreads = 384, kWarpgroupThreads = 128;  // warpgroup 0 feeds, 1 and 2 take 64 rows each
constexpr unsigned kBytesA = kRows * kDepth, kBytesC = 64 * 64 * 2;

struct Tile {
  int row, column;  // in tiles
};

// The tiles of a product in groups of `group` pairs of rows, column by column inside: what is in flight shares L2.
struct Tiles {
  int pairs, columns, group;

  __device__ int count() const { return pairs * columns; }
  __device__ Tile at(int number, int rank) const {
    const int per_group = group * columns, first = number / per_group * group, in_group = min(group, pairs - first);
    return {(first + number % per_group % in_group) * kCluster + rank, number % per_group / in_group};
  }
};

template <int STAGES>
struct Stage {  // of the ring of slices, and the parity of its phase
  int index = 0;
  unsigned phase = 0;
  __device__ void next() {
    if (++index == STAGES) {
      index = 0;
      phase ^= 1;
    }
  }
};

// Shared memory of a block: STAGES slices of A and B, two boxes of C for each multiplying warpgroup, barriers.
template <int COLUMNS, int STAGES>
struct Room {
  static constexpr unsigned kBytesB = COLUMNS * kDepth;
  unsigned a, b, c, full, empty;  // barriers: slices arrived, places free

  __device__ explicit Room(const unsigned char* raw) {
    a = (warpwise::shared_address(raw) + 1023) & ~1023u;  // a swizzled unit is 1 KiB
    b = a + STAGES * kBytesA;
    c = b + STAGES * kBytesB;
    full = c + 4 * kBytesC;
    empty = full + 8 * STAGES;
    if (threadIdx.x == 0) {
      for (int s = 0; s < STAGES; ++s) {
        sm90::mbarrier_init(full + 8 * s, 1);
        sm90::mbarrier_init(empty + 8 * s, 2 * kCluster);  // both multiplying warpgroups of both blocks
      }
      sm90::fence_mbarrier_init();
    }
    sm90::cluster_sync();
  }

  __device__ unsigned slice_a(int stage) const { return a + stage * kBytesA; }
  __device__ unsigned slice_b(int stage) const { return b + stage * kBytesB; }
};

// One thread's work: every slice of every tile of this cluster, of B the half that this block loads for both.
template <int COLUMNS, int STAGES>
__device__ inline void feed(const Room<COLUMNS, STAGES>& room, const sm90::TensorMap& a, const sm90::TensorMap& b,
                            const Tiles& tiles, int slices, int rank, int hints) {
  constexpr unsigned kBytesB = Room<COLUMNS, STAGES>::kBytesB;
  const sm90::CachePolicy of_a = policy_for(hints / 4), of_b = policy_for(hints % 4);
  Stage<STAGES> stage{0, 1};  // every place is free at first
  for (int number = blockIdx.x / kCluster; number < tiles.count(); number += gridDim.x / kCluster) {
    const Tile tile = tiles.at(number, rank);
    for (int s = 0; s < slices; ++s, stage.next()) {
      const unsigned arrived = room.full + 8 * stage.index;
      sm90::mbarrier_wait(room.empty + 8 * stage.index, stage.phase);
      sm90::mbarrier_arrive_expect_tx(arrived, kBytesA + kBytesB);
      sm90::tma_load_2d(room.slice_a(stage.index), &a, arrived, s * kDepth, tile.row * kRows, of_a);
      sm90::tma_load_2d_multicast(room.slice_b(stage.index) + rank * (kBytesB / 2), &b, arrived, s * kDepth,
                                  tile.column * COLUMNS + rank * (COLUMNS / 2), 3, of_b);
    }
  }
}

// Begins a slice's products of 64 rows of A and 128 columns of B, in place of what `part` holds or added to it.
template <class A, class B>
__device__ inline void multiply(float (&part)[64], unsigned a, unsigned b, bool adds) {
  sm90::wgmma_fence();
#pragma unroll
  for (int i = 0; i < kDepth / 32; ++i)
    sm90::wgmma<sm90::Pair<A, B>, 128>(part, sm90::matrix_descriptor(a + i * 32, 16, 1024),
                                       sm90::matrix_descriptor(b + i * 32, 16, 1024), adds || i > 0);
  sm90::wgmma_commit_group();
}

__device__ inline unsigned pack(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}

// Where a tile goes: to boxes of 64 x 64, by the copy engine, or to rows that begin anywhere, by threads.
template <bool BY_MAP>
struct Target {
  const sm90::TensorMap* map;
  sm90::DenseRows<__nv_bfloat16> rows;
};

// A warpgroup's 64 rows, from `row` on, of a tile whose columns begin at `column`: scaled, rounded and stored in boxes
// of 64 columns, through two places in shared memory from `room` on, in turn: `box` is the next. Scales as the kernels
// have them; `own` is the warpgroup's number among the multiplying ones.
template <bool BY_ROW, bool BY_MAP, int PARTS>
__device__ inline void leave(const float (&sums)[PARTS][32], const Target<BY_MAP>& target, const float* scale_a,
                             const float* scale_b, int row, int column, int m, int n, unsigned room, int& box,
                             int own) {
  const int thread = threadIdx.x % kWarpgroupThreads, lane = thread % 32;
  const int first = row + thread / 32 * 16 + lane / 4;  // of this thread's two rows
  const float scale = BY_ROW ? 1.0f : *scale_a * *scale_b;
  const float upper = BY_ROW ? scale_a[min(first, m - 1)] : scale;
  const float lower = BY_ROW ? scale_a[min(first + 8, m - 1)] : scale;
  float2 across[2][8];  // scales of this thread's columns, fetched a part ahead; past the edge nothing is stored
  const auto fetch = [&](int part) {
#pragma unroll
    for (int pair = 0; pair < 8; ++pair) {
      const int at = column + part * 64 + pair * 8 + lane % 4 * 2;
      float2& two = across[part % 2][pair];
      if (!BY_ROW)
        two = make_float2(1.0f, 1.0f);
      else if (BY_MAP)  // n is even
        two = *reinterpret_cast<const float2*>(scale_b + min(at, n - 2));
      else
        two = make_float2(scale_b[min(at, n - 1)], scale_b[min(at + 1, n - 1)]);
    }
  };
  fetch(0);
#pragma unroll
  for (int part = 0; part < PARTS; ++part, box ^= 1) {
    const unsigned to = room + box * kBytesC;
    if (part + 1 < PARTS) fetch(part + 1);
    if (BY_MAP) {
      if (thread == 0) sm90::tma_store_wait_read<1>();
      sm90::named_barrier_sync(1 + own, kWarpgroupThreads);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {  // 16 columns: two pairs of 8 x 8
      unsigned r[4];
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        const float* const four = &sums[part][j * 8 + pair * 4];
        const float2 of = across[part % 2][j * 2 + pair];
        r[2 * pair] = pack(four[0] * (upper * of.x), four[1] * (upper * of.y));
        r[2 * pair + 1] = pack(four[2] * (lower * of.x), four[3] * (lower * of.y));
      }
      const int to_row = thread / 32 * 16 + lane % 16, unit = j * 2 + lane / 16;  // of 16 bytes; swizzled by the row
      sm90::stmatrix_x4(to + to_row * 128 + ((unit ^ (to_row & 7)) << 4), r);
    }
    if (BY_MAP) {
      sm90::fence_proxy_async();
      sm90::named_barrier_sync(1 + own, kWarpgroupThreads);
      if (thread == 0) sm90::tma_store_2d(target.map, to, column + part * 64, row);
    } else {
      const int warp_row = thread / 32 * 16;  // a warp wrote these 16 rows alone
      __syncwarp();
      sm90::store_rows(to + warp_row * 128, target.rows, row + warp_row, column + part * 64);
    }
  }
}
