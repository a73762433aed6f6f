// TF32 wgmma without a transposition in global memory: the MN-major operand is transposed on its way to registers.
//
// wgmma reads 4-byte operands from shared memory K-major only, but takes its A operand from registers. That is the
// MN-major operand here: its k-tiles are loaded as they are, and a lane loads its elements of each wgmma by four
// conflict-free 4-byte loads. A row-major B is the A operand of C^T = B^T A^T, and the epilogue transposes the sums.
// TMA rounds the elements to nearest.

#include <warpwise/sm90/gemm_k_major.cuh>

namespace sm90 = warpwise::sm90;
using sm90::TensorMap;

constexpr int kTileK = 32, kWarpgroupThreads = 128,
              kThreads = 3 * kWarpgroupThreads;                           // warpgroup 0 produces, two consume
constexpr unsigned kLineBytes = kTileK * 4;                               // the span of the swizzle
constexpr unsigned kBoxBytes = 32 * kLineBytes, kBytesC = 2 * kBoxBytes;  // 32 x 32 floats; a subtile of C

// Body of the kernels below. `c_words` is C if its rows are not 16-byte aligned, else null.
template <bool MN_MAJOR, bool TRANSPOSED, int TILE_N, int CLUSTER, int STAGES, bool BOXES>
__device__ inline void multiply(const TensorMap& first, const TensorMap& second, const TensorMap* c, float* c_words,
                                int m, int n, int k, int rows, int columns, int group) {
  constexpr unsigned kBytesA = 128 * kLineBytes, kBytesB = TILE_N * kLineBytes, kSharedBytesB = kBytesB / CLUSTER;
  extern __shared__ unsigned char raw[];
  const unsigned base = (warpwise::shared_address(raw) + 1023) & ~1023u;  // a swizzled unit is 1 KiB
  const unsigned stages_a = base, stages_b = stages_a + STAGES * kBytesA, staging = stages_b + STAGES * kBytesB;
  const sm90::Pipeline pipeline(staging + 4 * kBytesC, STAGES);
  const int rank = static_cast<int>(sm90::cluster_ctarank());
  const int k_tiles = (k + 2 * kTileK - 1) / (2 * kTileK) * 2;  // in pairs; elements past the end are zero
  const int start = blockIdx.x / CLUSTER, step = gridDim.x / CLUSTER, tiles = rows * columns;
  const sm90::TileScheduler order{rows, columns, group};
  const auto tile_at = [&](int tile) {  // first row of either operand
    const sm90::Tile at = order.at(tile);
    return int2{(at.row * CLUSTER + rank) * 128, at.column * TILE_N};
  };

  if (threadIdx.x == 0) {
    pipeline.init(1, 2 * CLUSTER);  // both consumer warpgroups of all blocks
    sm90::fence_mbarrier_init();
  }
  sm90::cluster_sync();

  if (threadIdx.x < kWarpgroupThreads) {
    sm90::warpgroup_reg_dealloc<40>();
    if (threadIdx.x == 0) {
      sm90::PipelineState state{0, 1};
      for (int tile_index = start; tile_index < tiles; tile_index += step) {
        const int2 tile = tile_at(tile_index);
        for (int s = 0; s < k_tiles; ++s, state.next(STAGES)) {
          const unsigned full_barrier = pipeline.full_barrier(state.index), to = stages_a + state.index * kBytesA;
          const unsigned to_b = stages_b + state.index * kBytesB + rank * kSharedBytesB;
          pipeline.producer_acquire(state, kBytesA + kBytesB);
          if (MN_MAJOR) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
              sm90::tma_load_2d(to + i * kBoxBytes, &first, full_barrier, tile.x + i * 32, s * kTileK);
          } else {
            sm90::tma_load_2d(to, &first, full_barrier, s * kTileK, tile.x);
          }
          if (CLUSTER > 1)
            sm90::tma_load_2d_multicast(to_b, &second, full_barrier, s * kTileK, tile.y + rank * (TILE_N / CLUSTER), 3);
          else
            sm90::tma_load_2d(to_b, &second, full_barrier, s * kTileK, tile.y);
        }
      }
    }
  } else {
    sm90::warpgroup_reg_alloc<232>();
    const int warpgroup = threadIdx.x / kWarpgroupThreads - 1, thread = threadIdx.x % kWarpgroupThreads;
    const int warp = thread / 32, lane = thread % 32, row_lane = lane / 4, k_lane = lane % 4;
    // The row, of the warpgroup's 64, that row l / 4 + 8 half of the warp's 16 rows of D holds. MN_MAJOR, in boxes
    // of 32 whose lines are one k each, the 16-byte units that a warp reads at four k are eight different ones.
    const auto row_of = [&](int half) {
      return MN_MAJOR ? warp / 2 * 32 + warp % 2 * 8 + half * 4 + row_lane / 4 * 16 + row_lane % 4
                      : warp * 16 + half * 8 + row_lane;
    };
    unsigned word_offsets[4];  // offsets of this lane's words of a wgmma: rows, then k
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = row_of(i % 2), k_at = k_lane + i / 2 * 4, x = MN_MAJOR ? row % 32 : k_at,
                y = MN_MAJOR ? k_at : row;
      word_offsets[i] = warpgroup * 2 * kBoxBytes + (MN_MAJOR ? row / 32 * kBoxBytes : 0) + y * kLineBytes +
                        ((x / 4 ^ y % 8) << 4) + x % 4 * 4;
    }
    const unsigned own_staging = staging + warpgroup * 2 * kBytesC;  // two staging buffers, used in turn
    sm90::PipelineState state;
    unsigned previous_empty = 0;  // empty barrier of the k-tile whose wgmma may be pending
    int box = 0;
    unsigned fragments[2][kTileK / 8][4];
    for (int tile_index = start; tile_index < tiles; tile_index += step) {
      float d[TILE_N / 2];
      const auto k_tile = [&](int s, unsigned (&a)[kTileK / 8][4]) {
        pipeline.consumer_wait(state);
        const unsigned from_a = stages_a + state.index * kBytesA, from_b = stages_b + state.index * kBytesB;
#pragma unroll
        for (int i = 0; i < kTileK / 8; ++i) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            // The next 8 k: 8 lines further, or 2 units of 16 bytes along the line, swizzled.
            a[i][e] = warpwise::ld_shared(from_a +
                                          (MN_MAJOR ? word_offsets[e] + i * 8 * kLineBytes : word_offsets[e] ^ i << 5));
          }
        }
        sm90::wgmma_fence();
#pragma unroll
        for (int i = 0; i < kTileK / 8; ++i)
          sm90::wgmma_rs<TILE_N>(d, a[i], sm90::matrix_descriptor(from_b + i * 32, 16, 1024), s || i);
        sm90::wgmma_commit_group();
        sm90::wgmma_wait_group<1>();
        if (s > 0 && thread < CLUSTER) sm90::mbarrier_arrive(previous_empty, thread);
        previous_empty = pipeline.empty_barrier(state.index);
        state.next(STAGES);
      };
      for (int s = 0; s < k_tiles; s += 2) {
        k_tile(s, fragments[0]);
        k_tile(s + 1, fragments[1]);
      }
      sm90::wgmma_wait_group<0>();
      if (thread < CLUSTER) sm90::mbarrier_arrive(previous_empty, thread);

      const int2 tile = tile_at(tile_index);
#pragma unroll
      for (int subtile = 0; subtile < TILE_N / 32; ++subtile, box ^= 1) {  // 64 x 32 sums, in two boxes of 32 x 32
        const unsigned to = own_staging + box * kBytesC;
        if (BOXES && thread == 0)
          sm90::tma_store_wait_read<2>();  // the two boxes of the other buffer may still be read
        sm90::named_barrier_sync(1 + warpgroup, kWarpgroupThreads);
#pragma unroll
        for (int i = 0; i < 16; ++i) {  // row, then column of the sums
          const int r = row_of(i / 2 % 2), q = i / 4 * 8 + k_lane * 2 + i % 2;
          const int y = TRANSPOSED ? q : r % 32, x = TRANSPOSED ? r % 32 : q;
          warpwise::st_shared(to + r / 32 * kBoxBytes + y * kLineBytes + ((x / 4 ^ y % 8) << 4) + x % 4 * 4,
                              d[subtile * 16 + i]);
        }
        if (BOXES) sm90::fence_proxy_async();
        sm90::named_barrier_sync(1 + warpgroup, kWarpgroupThreads);
        const int r = tile.x + warpgroup * 64, q = tile.y + subtile * 32, row = TRANSPOSED ? q : r,
                  column = TRANSPOSED ? r : q;
        if constexpr (BOXES) {
          if (thread == 0) {
            sm90::tma_store_2d(c, to, column, row);
            sm90::tma_store_2d(c, to + kBoxBytes, TRANSPOSED ? column + 32 : column, TRANSPOSED ? row : row + 32);
          }
        } else {
#pragma unroll 2
          for (int y = warp; y < 64; y += 4) {
            const int c_row = row + (TRANSPOSED ? y % 32 : y), x = column + (TRANSPOSED ? y / 32 * 32 : 0) + lane;
            const unsigned word = warpwise::ld_shared(to + y * kLineBytes + ((lane / 4 ^ y % 8) << 4) + lane % 4 * 4);
            if (c_row < m && x < n) c_words[static_cast<long long>(c_row) * n + x] = __uint_as_float(word);
          }
        }
      }
    }
    if (BOXES && thread == 0) sm90::tma_store_wait();
  }
  sm90::cluster_sync();  // a block must not exit while others may arrive at its barriers
}

// first: (extent, k) with boxes of 128 x 32, or (k, extent) if MN_MAJOR with boxes of 32 x 32; second: (extent, k)
// with boxes of TILE_N / CLUSTER x 32; c: (m, n) with boxes of 32 x 32, whose rows are the extent of `first`, or of
// `second` if TRANSPOSED; all tensor maps. Each block of a cluster computes 128 of the extent of `first`; they share
// `second` by multicast. rows, columns: tiles of a cluster, 128 CLUSTER x TILE_N; group: of the raster order. Grid: a
// multiple of CLUSTER, at most one block per SM. Dynamic shared memory: 1 KiB for alignment, STAGES stages of (128 +
// TILE_N) * kLineBytes bytes, 4 * kBytesC, and 16 * STAGES bytes of barriers.
template <bool MN_MAJOR, bool TRANSPOSED, int TILE_N, int CLUSTER, int STAGES>
__global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(CLUSTER, 1, 1)
    matmul_transposed_in_registers(const __grid_constant__ TensorMap first, const __grid_constant__ TensorMap second,
                                   const __grid_constant__ TensorMap c, int k, int rows, int columns, int group) {
  multiply<MN_MAJOR, TRANSPOSED, TILE_N, CLUSTER, STAGES, true>(first, second, &c, nullptr, 0, 0, k, rows, columns,
                                                                group);
}

// The same for C with rows of any alignment.
template <bool MN_MAJOR, bool TRANSPOSED, int TILE_N, int CLUSTER, int STAGES>
__global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(CLUSTER, 1, 1)
    matmul_transposed_in_registers_unaligned_c(const __grid_constant__ TensorMap first,
                                               const __grid_constant__ TensorMap second, float* __restrict__ c, int m,
                                               int n, int k, int rows, int columns, int group) {
  multiply<MN_MAJOR, TRANSPOSED, TILE_N, CLUSTER, STAGES, false>(first, second, nullptr, c, m, n, k, rows, columns,
                                                                 group);
}
