// Slices of K on their way to the matrix units: B through registers, or by its address; A by its address. sm_90a only.
//
// The matrix units take 64 rows of one factor and 8 to 256 columns of the other. Here the 64 are columns of B, and the
// variable side the rows of A, so that few rows of A cost few products: D = B^T A^T, and D's rows are columns of C.
#pragma once

#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/mbarrier.cuh>
#include <warpwise/sm90/tma.cuh>
#include <warpwise/sm90/wgmma.cuh>

#include "registers.cuh"

namespace sm90 = warpwise::sm90;

// How B (k, n) lies: its rows, or its columns, one after another in memory, and whether the copy engine can read them
// where they lie. If they begin anywhere, every fourth of them begins at the same word of 16 bytes: they come in four
// maps, from the unit of 16 bytes that each begins in, and are read `shift` words on.
enum class From { kRows, kColumns, kShiftedRows, kShiftedColumns };

constexpr int kWarpgroupThreads = 128;  // a warpgroup takes 64 columns of B
constexpr int kDepth = 32;              // of a slice
constexpr unsigned kLine = 128;         // bytes: the span of the swizzle, 32 words

__device__ inline unsigned ld_shared(unsigned address) {
  unsigned word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
  return word;
}

// Boxes of A: M x 32. Boxes of B: of rows 32 x 32, of columns 64 GROUPS x 32. Shifted, they are not swizzled: a box
// has every fourth line of the slice, and four words more of it than the slice needs.
template <From FROM, int GROUPS, int M, int STAGES>
struct Slices {
  static constexpr bool kShifted = FROM == From::kShiftedRows || FROM == From::kShiftedColumns;
  static constexpr bool kAcross = FROM == From::kRows || FROM == From::kShiftedRows;
  static constexpr bool kInRegisters = FROM != From::kColumns;
  static constexpr int kColumns = GROUPS * 64, kLines = kAcross ? kDepth : kColumns;
  static constexpr int kBoxes = kShifted ? 4 : kAcross ? kColumns / 32 : 1;
  static constexpr unsigned kPitch = kShifted ? ((kAcross ? kColumns : kDepth) + 4) * 4 : kLine;  // bytes
  static constexpr unsigned kBoxBytes = (kShifted ? kLines / 4 : kLines) * kPitch, kBytesA = M * kLine;
  static constexpr unsigned kBytesB = (kBoxes * kBoxBytes + 1023) / 1024 * 1024;  // a swizzled unit is 1 KiB
  static constexpr unsigned kBytes = kBytesB + kBytesA;
  static_assert(kBoxBytes % 128 == 0 && M % 8 == 0, "boxes begin on 128 bytes, A's on swizzled units of 8 rows");
  static constexpr int kThreads = GROUPS * kWarpgroupThreads;  // that multiply
  // Nine warps have 168 registers each, too few for 128 sums and two slices' words: a whole warpgroup feeds, and gives.
  static constexpr bool kMoves = kInRegisters && kThreads == 256 && M == 256;
  static constexpr int kFeeders = kMoves ? 128 : 32;

  unsigned ring, full, empty;  // shared addresses: slices, and barriers for those that arrived and places that are free
  int stage = 0;
  unsigned phase;

  // `raw`: 1 KiB to align, then STAGES slices; `barriers`: 2 * STAGES.
  __device__ Slices(unsigned char* raw, unsigned long long* barriers)
      : ring((warpwise::shared_address(raw) + 1023) & ~1023u),  // a swizzled unit is 1 KiB
        full(warpwise::shared_address(barriers)),
        empty(full + 8 * STAGES),
        phase(feeds()) {}  // every place is free at first

  static __device__ bool feeds() { return threadIdx.x >= kThreads; }

  __device__ void init() const {
    if (threadIdx.x == kThreads) {
      for (int s = 0; s < STAGES; ++s) {
        sm90::mbarrier_init(full + 8 * s, 1);
        sm90::mbarrier_init(empty + 8 * s, GROUPS);
      }
      sm90::fence_mbarrier_init();
      sm90::fence_proxy_async();
    }
    __syncthreads();
  }

  __device__ void next() {
    if (++stage == STAGES) {
      stage = 0;
      phase ^= 1;
    }
  }

  // One thread asks for the slice at `depth`. b: a map, or four.
  template <int MAPS>
  __device__ void load(const sm90::TensorMap& a, const sm90::TensorMap* const (&b)[MAPS], int depth, int row,
                       int column) {
    static_assert(MAPS == (kShifted ? 4 : 1), "a map, or four of shifted lines");
    const unsigned arrived = full + 8 * stage, to = ring + stage * kBytes;
    const sm90::CachePolicy policy = sm90::createpolicy_evict_first();  // both pass by once
    sm90::mbarrier_wait(empty + 8 * stage, phase);
    sm90::mbarrier_arrive_expect_tx(arrived, kBoxes * kBoxBytes + kBytesA);
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) {
      const int on = kShifted ? 0 : box * 32, each = kShifted ? 4 : 1;
      const int x = (kAcross ? column : depth) + on, y = (kAcross ? depth : column) / each;
      sm90::tma_load_2d(to + box * kBoxBytes, b[kShifted ? box : 0], arrived, x, y, policy);
    }
    sm90::tma_load_2d(to + kBytesB, &a, arrived, depth, row, policy);
    next();
  }

  static __device__ void arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
  }

  // Row l / 4 + 8 half of the warp's 16 rows of D is this one of the warpgroup's 64 columns. Across K, where a line of
  // shared memory is a depth, eight columns at four depths are 32 banks; shifted along K, a warp has one box's columns.
  static __device__ int column_of(int half) {
    const int warp = threadIdx.x % kWarpgroupThreads / 32, line = threadIdx.x % 32 / 4;
    if (kAcross) return warp / 2 * 32 + warp % 2 * 8 + half * 4 + line / 4 * 16 + line % 4;
    return kShifted ? (half * 8 + line) * 4 + warp : warp * 16 + half * 8 + line;
  }

  // The address in a slice of a lane's word at this column and depth, both of the first of a slice's products.
  static __device__ unsigned place(int column, int depth, int shift) {
    const int group = threadIdx.x / kWarpgroupThreads;
    if (FROM == From::kShiftedRows) return depth * kPitch + (group * 64 + column) * 4;  // depth 4 d: see of_product
    if (FROM == From::kShiftedColumns)
      return column % 4 * kBoxBytes + (group * 16 + column / 4) * kPitch + (depth + shift) * 4;
    return (group * 2 + column / 32) * kBoxBytes + depth * kLine + ((column % 32 / 4 ^ depth) << 4) + column % 4 * 4;
  }

  // The same of product i. Of rows that are shifted, product i has depths 4 d + i, for d from 0 to 7, and A's
  // columns lie in that order: they come from one box.
  static __device__ unsigned of_product(unsigned place, int i, const int (&shifts)[4]) {
    if (FROM == From::kShiftedRows) return place + i * kBoxBytes + shifts[i] * 4;
    return place + i * (kAcross ? 8 * kLine : 32);
  }

  // D = the sum of the next `count` slices' products, an even number. All warpgroups that multiply; then nobody reads
  // those slices. Shifted line i of B begins start + i * step words, modulo 4, into 16 bytes.
  __device__ void multiply(float (&d)[M / 2], int count, int start, int step) {
    const int thread = threadIdx.x % kWarpgroupThreads;
    const int shifts[4] = {start & 3, start + step & 3, start + 2 * step & 3, start + 3 * step & 3};
    unsigned where[4];  // this lane's words of a product: columns, then depths
#pragma unroll
    for (int e = 0; e < 4; ++e)
      where[e] = place(column_of(e % 2), threadIdx.x % 4 + e / 2 * 4, start + thread / 32 * step & 3);
    unsigned before = 0;  // the barrier of the slice whose products may still run
    unsigned fragments[2][kDepth / 8][4];
    const auto slice = [&](int s, unsigned (&f)[kDepth / 8][4]) {
      const unsigned from_b = ring + stage * kBytes, from_a = from_b + kBytesB;
      sm90::mbarrier_wait(full + 8 * stage, phase);
      if (kInRegisters) {
#pragma unroll
        for (int i = 0; i < kDepth / 8; ++i) {
#pragma unroll
          for (int e = 0; e < 4; ++e) f[i][e] = ld_shared(from_b + of_product(where[e], i, shifts));
        }
      }
      sm90::wgmma_fence();
#pragma unroll
      for (int i = 0; i < kDepth / 8; ++i) {
        const unsigned long long of_a = sm90::matrix_descriptor(from_a + i * 32, 16, 1024);
        if constexpr (kInRegisters) {
          sm90::wgmma_rs<M>(d, f[i], of_a, s || i);
        } else {
          const unsigned of_b = from_b + threadIdx.x / kWarpgroupThreads * 64 * kLine + i * 32;
          sm90::wgmma<float, M>(d, sm90::matrix_descriptor(of_b, 16, 1024), of_a, s || i);
        }
      }
      sm90::wgmma_commit_group();
      sm90::wgmma_wait_group<1>();
      if (s > 0 && thread == 0) arrive(before);
      before = empty + 8 * stage;
      next();
    };
    for (int s = 0; s < count; s += 2) {
      slice(s, fragments[0]);
      slice(s + 1, fragments[1]);
    }
    sm90::wgmma_wait_group<0>();
    if (thread == 0) arrive(before);
  }
};
