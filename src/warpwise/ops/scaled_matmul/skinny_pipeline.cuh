// The TMA pipeline of k07: k-tiles in shared memory, with as many stages as fit.
//
// A k-tile is 128 bytes of K for each row of A and each column of B. Columns of B take the M dimension of wgmma, rows
// of A its N dimension. A tile may have fewer columns than its warpgroups compute: they also read the memory behind
// B's lines, and the resulting sums are not stored.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/pipeline.cuh>
#include <warpwise/sm90/wgmma.cuh>
#include "policies.cuh"

constexpr int kWarpgroupThreads = 128, kTileK = 128;  // elements and bytes of a line
constexpr int kColumns = 64;                          // columns of C per warpgroup

// GROUPS_N x GROUPS_M consumer warpgroups along the columns of B and the rows of A, ROWS of these each. A stage is
// K_TILES k-tiles; two of them, 256 products, are accumulated by wgmma before they are added in float32.
template <class A, class B, int GROUPS_N, int GROUPS_M, int ROWS, int K_TILES>
struct Pipeline {
  static constexpr int kGroups = GROUPS_N * GROUPS_M,
                       kThreads = kGroups * kWarpgroupThreads;  // consumers; the other threads produce
  static constexpr int kTileRows = GROUPS_M * ROWS;
  static constexpr int kMaxRows = kGroups > 2 ? 64 : 128,
                       kWgmmaN = ROWS < kMaxRows ? ROWS : kMaxRows;  // rows per wgmma
  // If the sums take most registers, the producer is a warpgroup, which deallocates registers; otherwise one warp.
  static constexpr bool kReallocates = kGroups == 4 || ROWS > 128;
  static constexpr int kBlock = kThreads + (kReallocates ? kWarpgroupThreads : 32);
  static constexpr int kConsumerRegisters = kGroups == 4 ? 112 : 232, kProducerRegisters = kGroups == 4 ? 32 : 40;
  static constexpr unsigned kBytesA = kTileRows * kTileK;
  static_assert(K_TILES <= 2 || ROWS == kWgmmaN, "several accumulators only if one wgmma covers all rows");

  unsigned stages_base, bytes_b;  // shared address of the stages; bytes of B in a k-tile
  sm90::Pipeline ring;
  sm90::PipelineState state;  // of a consumer; the producer waits for the other parity

  __device__ Pipeline(unsigned char* raw, unsigned long long* barriers, int columns, int stages)
      : stages_base((warpwise::shared_address(raw) + 1023) & ~1023u),  // a swizzled unit is 1 KiB
        bytes_b(columns * kTileK),
        ring(warpwise::shared_address(barriers), stages) {}

  // Initialises the barriers of a stage; called by one thread.
  __device__ void init(int s) const {
    sm90::mbarrier_init(ring.full_barrier(s), 1);
    sm90::mbarrier_init(ring.empty_barrier(s), kGroups);
  }

  __device__ unsigned k_tile(int i) const { return stages_base + (state.index * K_TILES + i) * (bytes_b + kBytesA); }
  __device__ unsigned end() const { return stages_base + ring.stages * K_TILES * (bytes_b + kBytesA); }

  // One thread loads the stage at `k_offset`.
  __device__ void load(const sm90::TensorMap& a, const sm90::TensorMap& b, int k_offset, int row, int column,
                       sm90::CachePolicy policy_a, sm90::CachePolicy policy_b) {
    const unsigned full_barrier = ring.full_barrier(state.index);
    sm90::mbarrier_arrive_expect_tx(full_barrier, K_TILES * (bytes_b + kBytesA));
#pragma unroll
    for (int i = 0; i < K_TILES; ++i, k_offset += kTileK) {
      sm90::tma_load_2d(k_tile(i), &b, full_barrier, k_offset, column, policy_b);
      sm90::tma_load_2d(k_tile(i) + bytes_b, &a, full_barrier, k_offset, row, policy_a);
    }
    state.next(ring.stages);
  }

  // sums = the product over the next `count` stages, added in float32 every 256 products. Called by all consumer
  // warpgroups.
  __device__ void multiply(float (&sums)[ROWS / 2], int count) {
    constexpr int kAccumulators = (K_TILES + 1) / 2;
    const int group = threadIdx.x / kWarpgroupThreads;
    const unsigned b_offset = group % GROUPS_N * kColumns * kTileK,
                   a_offset = bytes_b + group / GROUPS_N * ROWS * kTileK;
#pragma unroll
    for (int e = 0; e < ROWS / 2; ++e) sums[e] = 0.0f;
    for (int s = 0; s < count; ++s, state.next(ring.stages)) {
      ring.consumer_wait(state);
#pragma unroll
      for (int from = 0; from < ROWS; from += kWgmmaN) {
        float accumulator[kAccumulators][kWgmmaN / 2];
        sm90::wgmma_fence();
#pragma unroll
        for (int i = 0; i < K_TILES; ++i) {
#pragma unroll
          for (int k_byte = 0; k_byte < kTileK; k_byte += 32)
            sm90::wgmma<sm90::Pair<B, A>, kWgmmaN>(
                accumulator[i / 2], sm90::matrix_descriptor(k_tile(i) + b_offset + k_byte, 16, 1024),
                sm90::matrix_descriptor(k_tile(i) + a_offset + from * kTileK + k_byte, 16, 1024),
                k_byte > 0 || i % 2 > 0);
        }
        sm90::wgmma_commit_group();
        sm90::wgmma_wait_group<0>();
#pragma unroll
        for (int i = 0; i < kAccumulators; ++i) sm90::warpgroup_fence_operand(accumulator[i]);
        if (from + kWgmmaN == ROWS && threadIdx.x % kWarpgroupThreads == 0) ring.consumer_release(state.index);
#pragma unroll
        for (int i = 0; i < kAccumulators; ++i) {
#pragma unroll
          for (int e = 0; e < kWgmmaN / 2; ++e) sums[from / 2 + e] += accumulator[i][e];
        }
      }
    }
  }
};
