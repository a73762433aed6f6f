// The TMA pipeline of k19: k-tiles in shared memory, from a producer warp to consumer warpgroups.
//
// wgmma has M = 64 and N = 8 to 256. Here columns of B take the M dimension and rows of A the N dimension, so that few
// rows of A need little arithmetic: D = B^T A^T, whose rows are columns of C.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <warpwise/core/numeric.cuh>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/pipeline.cuh>
#include <warpwise/sm90/tma.cuh>
#include <warpwise/sm90/warpgroup.cuh>
#include <warpwise/sm90/wgmma.cuh>

namespace sm90 = warpwise::sm90;

constexpr int kWarpgroupThreads = 128;  // a warpgroup computes 64 columns of C

// The operand that the two blocks of a pair share: each loads half of it by multicast.
enum class Shared { nothing, a, b };

// Boxes of A: (m, k), row-major: M rows x 64. Boxes of B: 64 GROUPS x 64 of (n, k) if B_K_MAJOR, else 64 x 64 of (k,
// n). Boxes of the SHARED operand have half of these rows.
template <class T, int GROUPS, int M, bool B_K_MAJOR, int TILE_K, int STAGES, Shared SHARED = Shared::nothing>
struct Pipeline {
  static constexpr int kBoxes = TILE_K / 64;  // along K, 128 bytes each
  static constexpr unsigned kBoxB = GROUPS * 64 * 128, kBoxA = M * 128, kBytesB = kBoxes * kBoxB;
  static constexpr unsigned kBytes = kBytesB + kBoxes * kBoxA;
  static constexpr int kThreads = GROUPS * kWarpgroupThreads;  // consumers; one more warp produces
  static constexpr bool kPairs = SHARED != Shared::nothing;
  static_assert(M % (SHARED == Shared::a ? 16 : 8) == 0, "a swizzled unit has 8 rows");

  unsigned stages;  // shared address
  sm90::Pipeline ring;
  sm90::PipelineState state;
  int half = 0;        // kPairs: the half that this block loads
  int first_rank = 0;  // kPairs: the pair's first block in the cluster

  // `raw`: 1 KiB for alignment, then STAGES stages; `barriers`: 2 * STAGES.
  __device__ Pipeline(unsigned char* raw, unsigned long long* barriers)
      : stages((warpwise::shared_address(raw) + 1023) & ~1023u),  // a swizzled unit is 1 KiB
        ring(warpwise::shared_address(barriers), STAGES),
        state{0, is_producer()} {}

  static __device__ bool is_producer() { return threadIdx.x >= kThreads; }

  // The producer warp initialises the barriers and continues at once; the consumers wait for them.
  __device__ void init() const {
    if (!is_producer()) {
      sm90::named_barrier_sync(2, kThreads + 32);
      return;
    }
    if (threadIdx.x == kThreads) {
      ring.init(1, kPairs ? 2 * GROUPS : GROUPS);
      sm90::fence_mbarrier_init();
      sm90::fence_proxy_async();
    }
    __syncwarp();
    asm volatile("bar.arrive 2, %0;" ::"n"(kThreads + 32) : "memory");
  }

  // One thread loads the k-tile at `k_offset`; of a SHARED operand it loads one half for both blocks of the pair.
  __device__ void load(const sm90::TensorMap& a, const sm90::TensorMap& b, int k_offset, int row, int column) {
    const unsigned full_barrier = ring.full_barrier(state.index), to_b = stages + state.index * kBytes,
                   to_a = to_b + kBytesB;
    const sm90::CachePolicy policy = sm90::createpolicy_evict_first();  // both are read once
    const int half_a = SHARED == Shared::a ? half * (M / 2) : 0, half_b = SHARED == Shared::b ? half : 0;
    const auto load_box = [&](bool shared, unsigned to, const sm90::TensorMap* map, int x, int y) {
      if (shared)
        sm90::tma_load_2d_multicast(to, map, full_barrier, x, y, static_cast<unsigned short>(3 << first_rank), policy);
      else
        sm90::tma_load_2d(to, map, full_barrier, x, y, policy);
    };
    ring.producer_acquire(state, kBytes);
#pragma unroll
    for (int box = 0; box < kBoxes; ++box, k_offset += 64) {
      if (B_K_MAJOR)
        load_box(SHARED == Shared::b, to_b + box * kBoxB + half_b * (kBoxB / 2), &b, k_offset,
                 column + half_b * GROUPS * 32);
      else
#pragma unroll
        for (int g = 0; g < GROUPS; ++g)
          load_box(SHARED == Shared::b, to_b + box * kBoxB + g * 8192 + half_b * 4096, &b, column + g * 64,
                   k_offset + half_b * 32);
      load_box(SHARED == Shared::a, to_a + box * kBoxA + half_a * 128, &a, k_offset, row + half_a);
    }
    state.next(STAGES);
  }

  // D = the product over the next `count` k-tiles. Called by all consumer warpgroups; afterwards these stages are
  // released.
  __device__ void multiply(float (&d)[M / 2], int count) {
    const int group = threadIdx.x / kWarpgroupThreads, thread = threadIdx.x % kWarpgroupThreads;
    unsigned previous_empty = 0;  // empty barrier of the k-tile whose wgmma may be pending
    // The last stages are not released to the other block of a pair, which may have exited and does not wait for
    // them.
    const auto release = [&](int s) {
      if (!kPairs && thread == 0) sm90::mbarrier_arrive(previous_empty);
      if (kPairs && thread < 2 && s + STAGES < count) sm90::mbarrier_arrive(previous_empty, first_rank + thread);
    };
#pragma unroll
    for (int i = 0; i < M / 2; ++i) d[i] = 0.0f;
    for (int s = 0; s < count; ++s, state.next(STAGES)) {
      const unsigned b_stage = stages + state.index * kBytes + group * 8192,
                     a_stage = stages + state.index * kBytes + kBytesB;
      ring.consumer_wait(state);
      sm90::wgmma_fence();
#pragma unroll
      for (int i = 0; i < TILE_K / 16; ++i) {
        const unsigned b_address = b_stage + i / 4 * kBoxB + i % 4 * (B_K_MAJOR ? 32 : 2048);
        const unsigned a_address = a_stage + i / 4 * kBoxA + i % 4 * 32;
        sm90::wgmma<T, M, !B_K_MAJOR, false>(d, sm90::matrix_descriptor(b_address, B_K_MAJOR ? 16 : 8192, 1024),
                                             sm90::matrix_descriptor(a_address, 16, 1024), true);
      }
      sm90::wgmma_commit_group();
      sm90::wgmma_wait_group<1>();
      if (s > 0) release(s - 1);
      previous_empty = ring.empty_barrier(state.index);
    }
    sm90::wgmma_wait_group<0>();
    if (count > 0) release(count - 1);
  }
};
