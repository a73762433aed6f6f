// What k18 and k19 share: slices of K on their way through a ring in shared memory, from the copy engine to warpgroups.
//
// The matrix units take 64 rows of one factor and 8 to 256 columns of the other. Here the 64 are columns of B, and the
// variable side the rows of A, so that few rows of A cost few products: D = B^T A^T, and D's rows are columns of C.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <warpwise/core/float4.cuh>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/mbarrier.cuh>
#include <warpwise/sm90/tma.cuh>
#include <warpwise/sm90/warpgroup.cuh>
#include <warpwise/sm90/wgmma.cuh>

namespace sm90 = warpwise::sm90;

constexpr int kWarpgroupThreads = 128;  // a warpgroup takes 64 columns of B

// What the two blocks of a pair load once for both of them, half each.
enum class Shared { nothing, a, b };

// Boxes of A: (m, k), row-major: M rows x 64. Boxes of B: (k, n): BY_COLUMNS, as (n, k), 64 GROUPS x 64, else row-major
// 64 x 64. Of what is SHARED, half of those rows.
template <class T, int GROUPS, int M, bool BY_COLUMNS, int DEPTH, int STAGES, Shared SHARED = Shared::nothing>
struct Slices {
  static constexpr int kBoxes = DEPTH / 64;  // side by side along K, 128 bytes each
  static constexpr unsigned kBoxB = GROUPS * 64 * 128, kBoxA = M * 128, kBytesB = kBoxes * kBoxB;
  static constexpr unsigned kBytes = kBytesB + kBoxes * kBoxA;
  static constexpr int kThreads = GROUPS * kWarpgroupThreads;  // that multiply; one more warp feeds
  static constexpr int kStaged = GROUPS * 64 + 4;  // floats of a staged row: lanes two rows apart are 8 banks apart
  static constexpr bool kPairs = SHARED != Shared::nothing;
  static_assert(M % (SHARED == Shared::a ? 16 : 8) == 0, "A's rows come in swizzled units of 8");

  unsigned ring, full, empty;  // shared addresses: slices, and barriers for those that arrived and places that are free
  int stage = 0;
  unsigned phase;
  int half = 0;   // kPairs: of this block
  int first = 0;  // kPairs: the pair's first block in the cluster

  // `raw`: 1 KiB to align, then STAGES slices; `barriers`: 2 * STAGES.
  __device__ Slices(unsigned char* raw, unsigned long long* barriers)
      : ring((warpwise::shared_address(raw) + 1023) & ~1023u),  // a swizzled unit is 1 KiB
        full(warpwise::shared_address(barriers)),
        empty(full + 8 * STAGES),
        phase(feeds()) {}  // every place is free at first

  static __device__ bool feeds() { return threadIdx.x >= kThreads; }

  // The warp that feeds makes the barriers and goes on at once; those that multiply wait for them.
  __device__ void init() const {
    if (!feeds()) {
      sm90::named_barrier_sync(2, kThreads + 32);
      return;
    }
    if (threadIdx.x == kThreads) {
      for (int s = 0; s < STAGES; ++s) {
        sm90::mbarrier_init(full + 8 * s, 1);
        sm90::mbarrier_init(empty + 8 * s, kPairs ? 2 * GROUPS : GROUPS);
      }
      sm90::fence_mbarrier_init();
      sm90::fence_proxy_async();
    }
    __syncwarp();
    asm volatile("bar.arrive 2, %0;" ::"n"(kThreads + 32) : "memory");
  }

  __device__ void next() {
    if (++stage == STAGES) {
      stage = 0;
      phase ^= 1;
    }
  }

  // One thread asks for the slice at `depth`, and for the other block of a pair for half of what they share.
  __device__ void load(const sm90::TensorMap& a, const sm90::TensorMap& b, int depth, int row, int column) {
    const unsigned arrived = full + 8 * stage, to_b = ring + stage * kBytes, to_a = to_b + kBytesB;
    const sm90::CachePolicy policy = sm90::createpolicy_evict_first();  // both pass by once
    const int half_a = SHARED == Shared::a ? half * (M / 2) : 0, half_b = SHARED == Shared::b ? half : 0;
    const auto ask = [&](bool shared, unsigned to, const sm90::TensorMap* map, int x, int y) {
      if (shared)
        sm90::tma_load_2d_multicast(to, map, arrived, x, y, static_cast<unsigned short>(3 << first), policy);
      else
        sm90::tma_load_2d(to, map, arrived, x, y, policy);
    };
    sm90::mbarrier_wait(empty + 8 * stage, phase);
    sm90::mbarrier_arrive_expect_tx(arrived, kBytes);
#pragma unroll
    for (int box = 0; box < kBoxes; ++box, depth += 64) {
      if (BY_COLUMNS)
        ask(SHARED == Shared::b, to_b + box * kBoxB + half_b * (kBoxB / 2), &b, depth, column + half_b * GROUPS * 32);
      else
#pragma unroll
        for (int g = 0; g < GROUPS; ++g)
          ask(SHARED == Shared::b, to_b + box * kBoxB + g * 8192 + half_b * 4096, &b, column + g * 64,
              depth + half_b * 32);
      ask(SHARED == Shared::a, to_a + box * kBoxA + half_a * 128, &a, depth, row + half_a);
    }
    next();
  }

  static __device__ void arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
  }

  // D = the sum of the next `count` slices' products. All warpgroups that multiply; then nobody reads those slices.
  __device__ void multiply(float (&d)[M / 2], int count) {
    const int group = threadIdx.x / kWarpgroupThreads, thread = threadIdx.x % kWarpgroupThreads;
    unsigned before = 0;  // the barrier of the slice whose products may still run
    // Nobody waits for the last places to be free, and the other block of a pair may be gone by then.
    const auto release = [&](int s) {
      if (!kPairs && thread == 0) arrive(before);
      if (kPairs && thread < 2 && s + STAGES < count) sm90::mbarrier_arrive(before, first + thread);
    };
#pragma unroll
    for (int i = 0; i < M / 2; ++i) d[i] = 0.0f;
    for (int s = 0; s < count; ++s, next()) {
      const unsigned from_b = ring + stage * kBytes + group * 8192, from_a = ring + stage * kBytes + kBytesB;
      sm90::mbarrier_wait(full + 8 * stage, phase);
      sm90::wgmma_fence();
#pragma unroll
      for (int i = 0; i < DEPTH / 16; ++i) {
        const unsigned b_now = from_b + i / 4 * kBoxB + i % 4 * (BY_COLUMNS ? 32 : 2048);
        const unsigned a_now = from_a + i / 4 * kBoxA + i % 4 * 32;
        sm90::wgmma<T, M, !BY_COLUMNS, false>(d, sm90::matrix_descriptor(b_now, BY_COLUMNS ? 16 : 8192, 1024),
                                              sm90::matrix_descriptor(a_now, 16, 1024), true);
      }
      sm90::wgmma_commit_group();
      sm90::wgmma_wait_group<1>();
      if (s > 0) release(s - 1);
      before = empty + 8 * stage;
    }
    sm90::wgmma_wait_group<0>();
    if (count > 0) release(count - 1);
  }

  // ROWS of A's side of D from row `from` on, each kStaged floats. Lane l of warp w has columns 16 w + l / 4 (+ 8) of B
  // and rows 8 j + 2 (l % 4) (+ 1) of A.
  template <int ROWS>
  static __device__ void stage_rows(float* staged, const float (&d)[M / 2], int from) {
    const int column = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, row = threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < ROWS / 2; ++i)
      staged[(i / 4 * 8 + row + i % 2) * kStaged + column + i / 2 % 2 * 8] = d[from / 2 + i];
  }
};

// Whether rows of C: (m, n) can be written four elements at a time.
template <class R>
__device__ inline bool in_fours(const R* c, int n) {
  return n % 4 == 0 && reinterpret_cast<unsigned long long>(c) % (4 * sizeof(R)) == 0;
}

template <class R>
__device__ inline void store_quad(R* to, const float* values, int left, bool fours) {
  if (fours)
    warpwise::store4<true>(to, values, left);
  else
    warpwise::store4<false>(to, values, left);
}
