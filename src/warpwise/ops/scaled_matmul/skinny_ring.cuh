// A ring of slices in shared memory for k07: from the copy engine to warpgroups, as many on their way as there is room.
//
// A slice is 128 of K: a line of shared memory for each row of A and each column of B. Columns of B take the 64 rows of
// the matrix units, rows of A their variable side. A tile may have fewer columns than its warpgroups take: they read
// what lies behind B's lines too, and make sums that nobody writes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/mbarrier.cuh>
#include <warpwise/sm90/wgmma.cuh>
#include "policies.cuh"

constexpr int kWarpgroupThreads = 128, kDepth = 128;  // of a slice, bytes of a line too
constexpr int kColumns = 64;                          // of a warpgroup

// GROUPS warpgroups side by side along the columns of B, SIDES along the rows of A, ROWS of these for each. A stage is
// SLICES slices, of which two, 256 products, are summed in the matrix units.
template <class A, class B, int GROUPS, int SIDES, int ROWS, int SLICES>
struct Ring {
  static constexpr int kTeams = GROUPS * SIDES, kThreads = kTeams * kWarpgroupThreads;  // that multiply; others feed
  static constexpr int kTileRows = SIDES * ROWS;
  static constexpr int kMost = kTeams > 2 ? 64 : 128, kPart = ROWS < kMost ? ROWS : kMost;  // rows at a time
  // Where sums take most registers a warpgroup feeds, which gives its own up; there is one warp otherwise.
  static constexpr bool kMoves = kTeams == 4 || ROWS > 128;
  static constexpr int kBlock = kThreads + (kMoves ? kWarpgroupThreads : 32);
  static constexpr int kMore = kTeams == 4 ? 112 : 232, kFewer = kTeams == 4 ? 32 : 40;
  static constexpr unsigned kBytesA = kTileRows * kDepth;
  static_assert(SLICES <= 2 || ROWS == kPart, "sums of several slices take the registers of several parts");

  unsigned ring, full, empty, bytes_b;  // shared addresses, barriers; bytes of B's lines in a slice
  int stages, stage = 0;
  unsigned phase = 0;

  __device__ Ring(unsigned char* raw, unsigned long long* barriers, int columns, int stages)
      : ring((warpwise::shared_address(raw) + 1023) & ~1023u),  // a swizzled unit is 1 KiB
        full(warpwise::shared_address(barriers)),
        empty(full + 8 * stages),
        bytes_b(columns * kDepth),
        stages(stages) {}

  // By one thread: the barriers of a stage.
  __device__ void init(int s) const {
    sm90::mbarrier_init(full + 8 * s, 1);
    sm90::mbarrier_init(empty + 8 * s, kTeams);
  }

  __device__ unsigned slice(int i) const { return ring + (stage * SLICES + i) * (bytes_b + kBytesA); }
  __device__ unsigned end() const { return ring + stages * SLICES * (bytes_b + kBytesA); }

  __device__ void next() {
    if (++stage == stages) {
      stage = 0;
      phase ^= 1;
    }
  }

  // One thread asks for the stage at `depth`.
  __device__ void load(const sm90::TensorMap& a, const sm90::TensorMap& b, int depth, int row, int column,
                       sm90::CachePolicy of_a, sm90::CachePolicy of_b) {
    const unsigned arrived = full + 8 * stage;
    sm90::mbarrier_arrive_expect_tx(arrived, SLICES * (bytes_b + kBytesA));
#pragma unroll
    for (int i = 0; i < SLICES; ++i, depth += kDepth) {
      sm90::tma_load_2d(slice(i), &b, arrived, depth, column, of_b);
      sm90::tma_load_2d(slice(i) + bytes_b, &a, arrived, depth, row, of_a);
    }
    next();
  }

  // sums = those of the next `count` stages, added in float32 every 256 products. All warpgroups that multiply.
  __device__ void multiply(float (&sums)[ROWS / 2], int count) {
    constexpr int kParts = (SLICES + 1) / 2;
    const int team = threadIdx.x / kWarpgroupThreads;
    const unsigned of_b = team % GROUPS * kColumns * kDepth, of_a = bytes_b + team / GROUPS * ROWS * kDepth;
#pragma unroll
    for (int e = 0; e < ROWS / 2; ++e) sums[e] = 0.0f;
    for (int s = 0; s < count; ++s, next()) {
      sm90::mbarrier_wait(full + 8 * stage, phase);
#pragma unroll
      for (int from = 0; from < ROWS; from += kPart) {
        float part[kParts][kPart / 2];
        sm90::wgmma_fence();
#pragma unroll
        for (int i = 0; i < SLICES; ++i) {
#pragma unroll
          for (int at = 0; at < kDepth; at += 32)
            sm90::wgmma<sm90::Pair<B, A>, kPart>(
                part[i / 2], sm90::matrix_descriptor(slice(i) + of_b + at, 16, 1024),
                sm90::matrix_descriptor(slice(i) + of_a + from * kDepth + at, 16, 1024), at > 0 || i % 2 > 0);
        }
        sm90::wgmma_commit_group();
        sm90::wgmma_wait_group<0>();
#pragma unroll
        for (int i = 0; i < kParts; ++i) sm90::warpgroup_fence_operand(part[i]);
        if (from + kPart == ROWS && threadIdx.x % kWarpgroupThreads == 0) sm90::mbarrier_arrive(empty + 8 * stage);
#pragma unroll
        for (int i = 0; i < kParts; ++i) {
#pragma unroll
          for (int e = 0; e < kPart / 2; ++e) sums[from / 2 + e] += part[i][e];
        }
      }
    }
  }
};
