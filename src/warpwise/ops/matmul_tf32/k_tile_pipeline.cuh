// The TMA pipeline of k06: k-tiles in shared memory for wgmma, with B from registers or shared memory and A from
// shared memory. sm_90a only.
//
// wgmma has M = 64 and N = 8 to 256. Here columns of B take the M dimension and rows of A the N dimension, so that few
// rows of A need little arithmetic: D = B^T A^T, whose rows are columns of C.
#pragma once

#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/pipeline.cuh>
#include <warpwise/sm90/tma.cuh>
#include <warpwise/sm90/wgmma.cuh>

#include "wgmma_rs.cuh"

namespace sm90 = warpwise::sm90;

// Layout of B (k, n): contiguous rows (MN-major) or contiguous columns (K-major). Shifted: the lines are not 16-byte
// aligned, so TMA cannot address them as one matrix. Every fourth line has the same offset modulo 16 bytes: four
// tensor maps begin at the aligned address at or before the first element of lines 0 to 3, and elements are read
// `shift` words further.
enum class BLayout { kRows, kColumns, kShiftedRows, kShiftedColumns };

constexpr int kWarpgroupThreads = 128;  // a warpgroup computes 64 columns of C
constexpr int kTileK = 32;
constexpr unsigned kLineBytes = 128;  // the span of the swizzle, 32 words

__device__ inline unsigned ld_shared(unsigned address) {
  unsigned word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
  return word;
}

// Boxes of A: M x 32. Boxes of B: 32 x 32 of rows, 64 GROUPS x 32 of columns. Shifted boxes are not swizzled: a box
// holds every fourth line of the k-tile, with four words more than the k-tile needs.
template <BLayout LAYOUT, int GROUPS, int M, int STAGES>
struct Pipeline {
  static constexpr bool kShifted = LAYOUT == BLayout::kShiftedRows || LAYOUT == BLayout::kShiftedColumns;
  static constexpr bool kMnMajor = LAYOUT == BLayout::kRows || LAYOUT == BLayout::kShiftedRows;
  static constexpr bool kBInRegisters = LAYOUT != BLayout::kColumns;
  static constexpr int kColumns = GROUPS * 64, kLines = kMnMajor ? kTileK : kColumns;
  static constexpr int kBoxes = kShifted ? 4 : kMnMajor ? kColumns / 32 : 1;
  static constexpr unsigned kPitch = kShifted ? ((kMnMajor ? kColumns : kTileK) + 4) * 4 : kLineBytes;  // bytes
  static constexpr unsigned kBoxBytes = (kShifted ? kLines / 4 : kLines) * kPitch, kBytesA = M * kLineBytes;
  static constexpr unsigned kBytesB = (kBoxes * kBoxBytes + 1023) / 1024 * 1024;  // a swizzled unit is 1 KiB
  static constexpr unsigned kBytes = kBytesB + kBytesA;
  static_assert(kBoxBytes % 128 == 0 && M % 8 == 0,
                "boxes are 128-byte aligned, those of A consist of swizzled units of 8 rows");
  static constexpr int kThreads = GROUPS * kWarpgroupThreads;  // consumers
  // Nine warps have 168 registers per thread, too few for 128 sums and the fragments of two k-tiles. Then the
  // producer is a whole warpgroup, which deallocates registers.
  static constexpr bool kReallocates = kBInRegisters && kThreads == 256 && M == 256;
  static constexpr int kProducerThreads = kReallocates ? 128 : 32;

  unsigned stages;  // shared address
  sm90::Pipeline ring;
  sm90::PipelineState state;

  // `raw`: 1 KiB for alignment, then STAGES stages; `barriers`: 2 * STAGES.
  __device__ Pipeline(unsigned char* raw, unsigned long long* barriers)
      : stages((warpwise::shared_address(raw) + 1023) & ~1023u),  // a swizzled unit is 1 KiB
        ring(warpwise::shared_address(barriers), STAGES),
        state{0, is_producer()} {}

  static __device__ bool is_producer() { return threadIdx.x >= kThreads; }

  __device__ void init() const {
    if (threadIdx.x == kThreads) {
      ring.init(1, GROUPS);
      sm90::fence_mbarrier_init();
      sm90::fence_proxy_async();
    }
    __syncthreads();
  }

  // One thread loads the k-tile at `k_offset`. b: one tensor map, or four if shifted.
  template <int MAPS>
  __device__ void load(const sm90::TensorMap& a, const sm90::TensorMap* const (&b)[MAPS], int k_offset, int row,
                       int column) {
    static_assert(MAPS == (kShifted ? 4 : 1), "one tensor map, or four for shifted lines");
    const unsigned full_barrier = ring.full_barrier(state.index), to = stages + state.index * kBytes;
    const sm90::CachePolicy policy = sm90::createpolicy_evict_first();  // both are read once
    ring.producer_acquire(state, kBoxes * kBoxBytes + kBytesA);
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) {
      const int box_offset = kShifted ? 0 : box * 32, line_step = kShifted ? 4 : 1;
      const int x = (kMnMajor ? column : k_offset) + box_offset, y = (kMnMajor ? k_offset : column) / line_step;
      sm90::tma_load_2d(to + box * kBoxBytes, b[kShifted ? box : 0], full_barrier, x, y, policy);
    }
    sm90::tma_load_2d(to + kBytesB, &a, full_barrier, k_offset, row, policy);
    state.next(STAGES);
  }

  // The column of C, of the warpgroup's 64, that row l / 4 + 8 half of the warp's 16 rows of D holds. For MN-major
  // B, whose lines are k, eight columns at four k access 32 banks; for shifted K-major B, a warp has the columns of
  // one box.
  static __device__ int column_of(int half) {
    const int warp = threadIdx.x % kWarpgroupThreads / 32, line = threadIdx.x % 32 / 4;
    if (kMnMajor) return warp / 2 * 32 + warp % 2 * 8 + half * 4 + line / 4 * 16 + line % 4;
    return kShifted ? (half * 8 + line) * 4 + warp : warp * 16 + half * 8 + line;
  }

  // Offset in a stage of a lane's word at this column and k, both relative to the first wgmma of the k-tile.
  static __device__ unsigned word_offset(int column, int k_offset, int shift) {
    const int group = threadIdx.x / kWarpgroupThreads;
    if (LAYOUT == BLayout::kShiftedRows)
      return k_offset * kPitch + (group * 64 + column) * 4;  // k = 4 d: see wgmma_offset
    if (LAYOUT == BLayout::kShiftedColumns)
      return column % 4 * kBoxBytes + (group * 16 + column / 4) * kPitch + (k_offset + shift) * 4;
    return (group * 2 + column / 32) * kBoxBytes + k_offset * kLineBytes + ((column % 32 / 4 ^ k_offset) << 4) +
           column % 4 * 4;
  }

  // The same for wgmma i. For shifted rows, wgmma i multiplies k = 4 d + i, d from 0 to 7, which are in one box; the
  // columns of A are stored in that order.
  static __device__ unsigned wgmma_offset(unsigned word_offset, int i, const int (&shifts)[4]) {
    if (LAYOUT == BLayout::kShiftedRows) return word_offset + i * kBoxBytes + shifts[i] * 4;
    return word_offset + i * (kMnMajor ? 8 * kLineBytes : 32);
  }

  // D = the product over the next `count` k-tiles, an even number. Called by all consumer warpgroups; afterwards
  // these stages are released. Line i of a shifted B begins (start + i * step) % 4 words after a multiple of 16
  // bytes.
  __device__ void multiply(float (&d)[M / 2], int count, int start, int step) {
    const int thread = threadIdx.x % kWarpgroupThreads;
    const int shifts[4] = {start & 3, start + step & 3, start + 2 * step & 3, start + 3 * step & 3};
    unsigned offsets[4];  // of this lane's words of a wgmma: columns, then k
#pragma unroll
    for (int e = 0; e < 4; ++e)
      offsets[e] = word_offset(column_of(e % 2), threadIdx.x % 4 + e / 2 * 4, start + thread / 32 * step & 3);
    unsigned previous_empty = 0;  // empty barrier of the k-tile whose wgmma may be pending
    unsigned fragments[2][kTileK / 8][4];
    const auto k_tile = [&](int s, unsigned (&f)[kTileK / 8][4]) {
      const unsigned b_stage = stages + state.index * kBytes, a_stage = b_stage + kBytesB;
      ring.consumer_wait(state);
      if (kBInRegisters) {
#pragma unroll
        for (int i = 0; i < kTileK / 8; ++i) {
#pragma unroll
          for (int e = 0; e < 4; ++e) f[i][e] = ld_shared(b_stage + wgmma_offset(offsets[e], i, shifts));
        }
      }
      sm90::wgmma_fence();
#pragma unroll
      for (int i = 0; i < kTileK / 8; ++i) {
        const unsigned long long a_descriptor = sm90::matrix_descriptor(a_stage + i * 32, 16, 1024);
        if constexpr (kBInRegisters) {
          sm90::wgmma_rs<M>(d, f[i], a_descriptor, s || i);
        } else {
          const unsigned b_address = b_stage + threadIdx.x / kWarpgroupThreads * 64 * kLineBytes + i * 32;
          sm90::wgmma<float, M>(d, sm90::matrix_descriptor(b_address, 16, 1024), a_descriptor, s || i);
        }
      }
      sm90::wgmma_commit_group();
      sm90::wgmma_wait_group<1>();
      if (s > 0 && thread == 0) sm90::mbarrier_arrive(previous_empty);
      previous_empty = ring.empty_barrier(state.index);
      state.next(STAGES);
    };
    for (int s = 0; s < count; s += 2) {
      k_tile(s, fragments[0]);
      k_tile(s + 1, fragments[1]);
    }
    sm90::wgmma_wait_group<0>();
    if (thread == 0) sm90::mbarrier_arrive(previous_empty);
  }
};
