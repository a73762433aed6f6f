// TF32 by Hopper's warpgroups without turning a factor in memory: it is turned on its way to registers.
//
// The matrix units read 4-byte elements of shared memory along K alone, but take one factor from registers. That is
// the factor which lies across K: its slices arrive as they lie, and a lane picks up its elements of each product, four
// loads of a word that meet no bank twice. A row-major B is the first factor of C^T = B^T A^T; its sums are turned
// where they leave. Elements are rounded to nearest by the copy engine.

#include <warpwise/sm90/gemm_k_major.cuh>

#include "registers.cuh"

namespace sm90 = warpwise::sm90;
using sm90::TensorMap;

constexpr int kDepth = 32, kWarpgroupThreads = 128,
              kThreads = 3 * kWarpgroupThreads;                      // warpgroup 0 feeds, two multiply
constexpr unsigned kLine = kDepth * 4;                               // bytes: the span of the swizzle
constexpr unsigned kBoxBytes = 32 * kLine, kBytesC = 2 * kBoxBytes;  // 32 x 32 words; what leaves at a time

template <int STAGES>
struct PipelineState {  // in the ring of slices, and the parity of its phase
  int index = 0;
  unsigned phase = 0;
  __device__ void next() {
    if (++index == STAGES) {
      index = 0;
      phase ^= 1;
    }
  }
};

__device__ inline unsigned ld_shared(unsigned address) {
  unsigned word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
  return word;
}

__device__ inline void store_word(unsigned address, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}

// What the launchers below pass on; `words` is C where its rows do not begin on 16 bytes, else null.
template <bool MN_MAJOR, bool TURNED, int WIDTH, int CLUSTER, int STAGES, bool BOXES>
__device__ inline void multiply(const TensorMap& first, const TensorMap& second, const TensorMap* c, float* words_of_c,
                                int m, int n, int k, int rows, int columns, int group) {
  constexpr unsigned kBytesA = 128 * kLine, kBytesB = WIDTH * kLine, kPart = kBytesB / CLUSTER;
  extern __shared__ unsigned char raw[];
  const unsigned base = (warpwise::shared_address(raw) + 1023) & ~1023u;  // a swizzled unit is 1 KiB
  const unsigned tiles_a = base, tiles_b = tiles_a + STAGES * kBytesA, leaving = tiles_b + STAGES * kBytesB;
  const unsigned full = leaving + 4 * kBytesC, empty = full + 8 * STAGES;  // barriers: slices arrived, places free
  const int rank = static_cast<int>(sm90::cluster_ctarank());
  const int slices = (k + 2 * kDepth - 1) / (2 * kDepth) * 2;  // in pairs; what lies past the end is read as zeros
  const int start = blockIdx.x / CLUSTER, step = gridDim.x / CLUSTER, tiles = rows * columns;
  const auto tile_of = [&](int number) {  // first row of either factor
    const int per_group = group * columns, top = number / per_group * group, high = min(group, rows - top);
    return int2{((top + number % per_group % high) * CLUSTER + rank) * 128, number % per_group / high * WIDTH};
  };

  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) {
      sm90::mbarrier_init(full + 8 * s, 1);
      sm90::mbarrier_init(empty + 8 * s, 2 * CLUSTER);  // both multiplying warpgroups of all blocks
    }
    sm90::fence_mbarrier_init();
  }
  sm90::cluster_sync();

  if (threadIdx.x < kWarpgroupThreads) {
    sm90::warpgroup_reg_dealloc<40>();
    if (threadIdx.x == 0) {
      PipelineState<STAGES> at{0, 1};  // every place is free at first
      for (int number = start; number < tiles; number += step) {
        const int2 tile = tile_of(number);
        for (int s = 0; s < slices; ++s, at.next()) {
          const unsigned arrived = full + 8 * at.index, to = tiles_a + at.index * kBytesA;
          const unsigned to_b = tiles_b + at.index * kBytesB + rank * kPart;
          sm90::mbarrier_wait(empty + 8 * at.index, at.phase);
          sm90::mbarrier_arrive_expect_tx(arrived, kBytesA + kBytesB);
          if (MN_MAJOR) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
              sm90::tma_load_2d(to + i * kBoxBytes, &first, arrived, tile.x + i * 32, s * kDepth);
          } else {
            sm90::tma_load_2d(to, &first, arrived, s * kDepth, tile.x);
          }
          if (CLUSTER > 1)
            sm90::tma_load_2d_multicast(to_b, &second, arrived, s * kDepth, tile.y + rank * (WIDTH / CLUSTER), 3);
          else
            sm90::tma_load_2d(to_b, &second, arrived, s * kDepth, tile.y);
        }
      }
    }
  } else {
    sm90::warpgroup_reg_alloc<232>();
    const int own = threadIdx.x / kWarpgroupThreads - 1, thread = threadIdx.x % kWarpgroupThreads;
    const int warp = thread / 32, lane = thread % 32, line = lane / 4, depth = lane % 4;
    // Row l / 4 + 8 half of the warp's 16 is this one of the warpgroup's 64 along the extent. MN_MAJOR, in boxes of 32
    // whose lines are a depth each, the units of 16 bytes that a warp reads at four depths are eight different ones.
    const auto row_of = [&](int half) {
      return MN_MAJOR ? warp / 2 * 32 + warp % 2 * 8 + half * 4 + line / 4 * 16 + line % 4
                      : warp * 16 + half * 8 + line;
    };
    unsigned words[4];  // where this lane's words of a product lie: rows, then depths
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = row_of(i % 2), at = depth + i / 2 * 4, x = MN_MAJOR ? row % 32 : at, y = MN_MAJOR ? at : row;
      words[i] =
          own * 2 * kBoxBytes + (MN_MAJOR ? row / 32 * kBoxBytes : 0) + y * kLine + ((x / 4 ^ y % 8) << 4) + x % 4 * 4;
    }
    const unsigned leaving_own = leaving + own * 2 * kBytesC;  // two places to leave through, in turn
    PipelineState<STAGES> at;
    unsigned before = 0;  // the barrier of the slice whose products may still run
    int box = 0;
    unsigned fragments[2][kDepth / 8][4];
    for (int number = start; number < tiles; number += step) {
      float d[WIDTH / 2];
      const auto slice = [&](int s, unsigned (&a)[kDepth / 8][4]) {
        sm90::mbarrier_wait(full + 8 * at.index, at.phase);
        const unsigned from_a = tiles_a + at.index * kBytesA, from_b = tiles_b + at.index * kBytesB;
#pragma unroll
        for (int i = 0; i < kDepth / 8; ++i) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            // 8 depths on: 8 lines on, or 2 units of 16 bytes along the line, by the swizzle.
            a[i][e] = ld_shared(from_a + (MN_MAJOR ? words[e] + i * 8 * kLine : words[e] ^ i << 5));
          }
        }
        sm90::wgmma_fence();
#pragma unroll
        for (int i = 0; i < kDepth / 8; ++i)
          sm90::wgmma_rs<WIDTH>(d, a[i], sm90::matrix_descriptor(from_b + i * 32, 16, 1024), s || i);
        sm90::wgmma_commit_group();
        sm90::wgmma_wait_group<1>();
        if (s > 0 && thread < CLUSTER) sm90::mbarrier_arrive(before, thread);
        before = empty + 8 * at.index;
        at.next();
      };
      for (int s = 0; s < slices; s += 2) {
        slice(s, fragments[0]);
        slice(s + 1, fragments[1]);
      }
      sm90::wgmma_wait_group<0>();
      if (thread < CLUSTER) sm90::mbarrier_arrive(before, thread);

      const int2 tile = tile_of(number);
#pragma unroll
      for (int part = 0; part < WIDTH / 32; ++part, box ^= 1) {  // 64 x 32 sums, in two boxes of 32 x 32
        const unsigned to = leaving_own + box * kBytesC;
        if (BOXES && thread == 0) sm90::tma_store_wait_read<2>();  // the two boxes of the other place may still be read
        sm90::named_barrier_sync(1 + own, kWarpgroupThreads);
#pragma unroll
        for (int i = 0; i < 16; ++i) {  // row, then column of the sums
          const int r = row_of(i / 2 % 2), q = i / 4 * 8 + depth * 2 + i % 2;
          const int y = TURNED ? q : r % 32, x = TURNED ? r % 32 : q;
          store_word(to + r / 32 * kBoxBytes + y * kLine + ((x / 4 ^ y % 8) << 4) + x % 4 * 4, d[part * 16 + i]);
        }
        if (BOXES) sm90::fence_proxy_async();
        sm90::named_barrier_sync(1 + own, kWarpgroupThreads);
        const int r = tile.x + own * 64, q = tile.y + part * 32, row = TURNED ? q : r, column = TURNED ? r : q;
        if constexpr (BOXES) {
          if (thread == 0) {
            sm90::tma_store_2d(c, to, column, row);
            sm90::tma_store_2d(c, to + kBoxBytes, TURNED ? column + 32 : column, TURNED ? row : row + 32);
          }
        } else {
#pragma unroll 2
          for (int y = warp; y < 64; y += 4) {
            const int at = row + (TURNED ? y % 32 : y), x = column + (TURNED ? y / 32 * 32 : 0) + lane;
            const unsigned word = ld_shared(to + y * kLine + ((lane / 4 ^ y % 8) << 4) + lane % 4 * 4);
            if (at < m && x < n) words_of_c[static_cast<long long>(at) * n + x] = __uint_as_float(word);
          }
        }
      }
    }
    if (BOXES && thread == 0) sm90::tma_store_wait();
  }
  sm90::cluster_sync();  // nobody leaves while another block may still arrive at its barriers
}

// first: (extent, k) or, MN_MAJOR, (k, extent), as a map with boxes of 128 x 32, or 32 x 32; second: (extent, k), in
// boxes of WIDTH / CLUSTER x 32; c: (m, n), whose rows are first's extent, or second's where TURNED, in boxes of 32
// x 32. Blocks of a cluster take 128 of the first factor's extent each and share what they load of the second. rows,
// columns: tiles of a cluster, 128 CLUSTER x WIDTH; group: of their order. Grid: a multiple of CLUSTER, at most a block
// an SM. Dynamic shared memory: 1 KiB to align, STAGES slices of (128 + WIDTH) * kLine bytes and 16 * STAGES of
// barriers, four times kBytesC.
template <bool MN_MAJOR, bool TURNED, int WIDTH, int CLUSTER, int STAGES>
__global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(CLUSTER, 1, 1)
    matmul_turned_in_registers(const __grid_constant__ TensorMap first, const __grid_constant__ TensorMap second,
                               const __grid_constant__ TensorMap c, int k, int rows, int columns, int group) {
  multiply<MN_MAJOR, TURNED, WIDTH, CLUSTER, STAGES, true>(first, second, &c, nullptr, 0, 0, k, rows, columns, group);
}

// The same with rows of C that begin anywhere.
template <bool MN_MAJOR, bool TURNED, int WIDTH, int CLUSTER, int STAGES>
__global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(CLUSTER, 1, 1)
    matmul_turned_in_registers_words(const __grid_constant__ TensorMap first, const __grid_constant__ TensorMap second,
                                     float* __restrict__ c, int m, int n, int k, int rows, int columns, int group) {
  multiply<MN_MAJOR, TURNED, WIDTH, CLUSTER, STAGES, false>(first, second, nullptr, c, m, n, k, rows, columns, group);
}
