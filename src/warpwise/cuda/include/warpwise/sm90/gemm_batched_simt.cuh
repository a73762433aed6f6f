// Float32 products of many matrices by blocks of four producer and four consumer warps, two blocks per SM: the epilogue
// of one block overlaps with the main loop of the other. Two blocks, each with four warps of 48 registers per thread
// and four of 208, use all registers of an SM. A warp computes 64 x 64, a thread 8 x 16; in block tiles with fewer than
// four warp tiles the warps divide each k-tile and add their sums in the epilogue.
#pragma once

#include <warpwise/core/float4.cuh>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/gemm_simt.cuh>
#include <warpwise/sm90/pipeline.cuh>
#include <warpwise/sm90/tma.cuh>
#include <warpwise/sm90/warpgroup.cuh>

namespace warpwise::sm90 {

constexpr int kWarpTile = 64, kWarps = 4, kProducerWarps = 4, kThreads = (kProducerWarps + kWarps) * 32;
constexpr int kProducerRegisters = 48, kConsumerRegisters = 208;        // registers per thread
constexpr int kPitch = kWarpTile + 16, kStaging = kWarps * 8 * kPitch;  // staged sums

// An operand of a batch: its first matrix, and the stride to the next one, in elements, or in boxes for TMA; 0 if it
// is broadcast.
struct BatchOperand {
  Operand first;
  long long matrix;
};

// The tiles of a batch in raster order of each matrix. rows, columns: tiles of a matrix; group: of TileScheduler.
template <int BM, int BN>
struct BatchTiles {
  static constexpr bool may_be_empty = false;
  int count, rows, columns, group, m, k_tiles_of_all;  // count: matrices
  __device__ bool more(int tile) { return tile < count * (rows * columns); }
  __device__ int matrix(int tile) const { return tile / (rows * columns); }
  __device__ int2 corner(int tile) const { return tile_at(tile % (rows * columns), rows, columns, group, BM, BN); }
  __device__ int height() const { return m; }
  __device__ int k_tiles() const { return k_tiles_of_all; }
  __device__ long long first_row_of_c(int tile) const { return static_cast<long long>(matrix(tile)) * m; }
  __device__ long long offset_of_a(int tile, const BatchOperand& a) const { return matrix(tile) * a.matrix; }
};

// A block tile is BM x BN; tensor maps have boxes of 1 x TILE_K x BM and 1 x TILE_K x BN. Tiles: as BatchTiles; without
// k-tiles a tile is zero.
template <int BM, int BN, int TILE_K, int STAGES, OperandLoad LOAD_A, OperandLoad LOAD_B, class Tiles>
__device__ __forceinline__ void multiply_matrices(const TensorMap* a_map, const TensorMap* b_map, const BatchOperand& a,
                                                  const BatchOperand& b, float* __restrict__ c, const Tiles& all) {
  constexpr int kTilesN = BN / kWarpTile, kTiles = BM / kWarpTile * kTilesN, kSplit = kWarps / kTiles;
  constexpr int kSteps = TILE_K / kSplit, kPitchA = k_tile_pitch(LOAD_A, BM), kPitchB = k_tile_pitch(LOAD_B, BN);
  constexpr int kFloatsA = TILE_K * kPitchA, kFloats = kFloatsA + TILE_K * kPitchB;
  constexpr bool kTmaA = LOAD_A == kTma, kTmaB = LOAD_B == kTma;
  constexpr bool kTma = kTmaA || kTmaB, kCpAsync = !(kTmaA && kTmaB);
  constexpr unsigned kTmaBytes = ((kTmaA ? BM : 0) + (kTmaB ? BN : 0)) * TILE_K * 4;
  static_assert(kSplit * kTiles == kWarps && kSteps % 2 == 0,
                "the tile occupies all warps; fragments are double-buffered");
  static_assert(STAGES >= kProducerWarps, "consecutive k-tiles of a producer warp use different stages");

  extern __shared__ unsigned char raw[];
  float* const ring = reinterpret_cast<float*>(raw + (-shared_address(raw) & 127));  // TMA needs 128-byte alignment
  float* const staging = ring + STAGES * kFloats;
  const Pipeline pipeline(shared_address(staging + kStaging), STAGES);
  const int n = b.first.extent;
  Tiles tiles = all;

  if (threadIdx.x == 0) {
    pipeline.init((kTma ? 1 : 0) + (kCpAsync ? 32 : 0), kWarps);
    fence_mbarrier_init();
  }
  __syncthreads();

  if (threadIdx.x < kProducerWarps * 32) {
    warpgroup_reg_dealloc<kProducerRegisters>();
    int s = threadIdx.x / 32;   // a warp loads every fourth k-tile, counted across tiles
    PipelineState state{s, 1};  // all stages are free at first
    for (int tile_index = blockIdx.x; tiles.more(tile_index); tile_index += gridDim.x) {
      const int matrix = tiles.matrix(tile_index), k_tiles = tiles.k_tiles();
      const int2 tile = tiles.corner(tile_index);
      const int matrix_a = kTmaA ? matrix * static_cast<int>(a.matrix) : 0;
      const int matrix_b = kTmaB ? matrix * static_cast<int>(b.matrix) : 0;
      const Operand from_a = {a.first.at + tiles.offset_of_a(tile_index, a), a.first.stride, tiles.height(), a.first.k};
      const Operand from_b = {b.first.at + matrix * b.matrix, b.first.stride, n, b.first.k};
      for (; s < k_tiles; s += kProducerWarps, state.advance(kProducerWarps, STAGES)) {
        const unsigned full_barrier = pipeline.full_barrier(state.index);
        float* const to = ring + state.index * kFloats;
        pipeline.producer_acquire(state);
        if (kTma && threadIdx.x % 32 == 0) {
          mbarrier_arrive_expect_tx(full_barrier, kTmaBytes);
          if (kTmaA) tma_load_3d(shared_address(to), a_map, full_barrier, tile.x, s * TILE_K, matrix_a);
          if (kTmaB) tma_load_3d(shared_address(to + kFloatsA), b_map, full_barrier, tile.y, s * TILE_K, matrix_b);
        }
        if constexpr (!kTmaA) copy_k_tile<LOAD_A, BM, TILE_K>(to, from_a, tile.x, s * TILE_K);
        if constexpr (!kTmaB) copy_k_tile<LOAD_B, BN, TILE_K>(to + kFloatsA, from_b, tile.y, s * TILE_K);
        if (kCpAsync) cp_async_mbarrier_arrive(full_barrier);
      }
      s -= k_tiles;
    }
    return;
  }

  warpgroup_reg_alloc<kConsumerRegisters>();
  const int warp = threadIdx.x / 32 - kProducerWarps, lane = threadIdx.x % 32;
  const int warp_tile = warp % kTiles, k_group = warp / kTiles;  // the warp tile, and the warp's steps of a k-tile
  const float* const a_lane = ring + k_group * kSteps * kPitchA + warp_tile / kTilesN * kWarpTile + lane / 4 * 4;
  const float* const b_lane =
      ring + kFloatsA + k_group * kSteps * kPitchB + warp_tile % kTilesN * kWarpTile + lane % 4 * 4;
  const float zero = tiles.count < 0 ? 1.0f : 0.0f;  // 0, but not a constant to the compiler
  PipelineState state{0, 0};
  for (int tile_index = blockIdx.x; tiles.more(tile_index); tile_index += gridDim.x) {
    float sums[8][16] = {};
    if (!Tiles::may_be_empty || tiles.k_tiles() > 0)
      multiply_k_tiles<kSteps, kFloats, kPitchA, kPitchB, STAGES, 32, 16, false, 1>(
          sums, a_lane, b_lane, tiles.k_tiles(), pipeline, state, lane == 0);

    const int2 tile = tiles.corner(tile_index);
    const int thread = reread_thread_index() - kProducerWarps * 32, r = thread / 16, x = thread % 16 * 4;
    float* const to = c + tiles.first_row_of_c(tile_index) * n + tile.y + x;
    float* const own_words = staging + (thread / 32 * 8 + thread % 32 / 4) * kPitch + thread % 4 * 4;
    const bool vectorised = n % 4 == 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {  // every fourth row of half a warp tile at a time
      named_barrier_sync(1, kWarps * 32);
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        // The addition avoids accumulators in consecutive registers, which would have register bank conflicts.
        const Float4 vector = {sums[i][4 * q] + zero, sums[i][4 * q + 1] + zero, sums[i][4 * q + 2] + zero,
                               sums[i][4 * q + 3] + zero};
        *reinterpret_cast<Float4*>(own_words + q * 16) = vector;
      }
      named_barrier_sync(1, kWarps * 32);
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        Float4 sum = *reinterpret_cast<const Float4*>(staging + (t * 8 + r) * kPitch + x);
#pragma unroll
        for (int p = 1; p < kSplit; ++p) {
          const Float4 values = *reinterpret_cast<const Float4*>(staging + ((p * kTiles + t) * 8 + r) * kPitch + x);
#pragma unroll
          for (int e = 0; e < 4; ++e) sum.at[e] += values.at[e];
        }
        const int row = tile.x + t / kTilesN * kWarpTile + i / 4 * 32 + r * 4 + i % 4;
        const int column = t % kTilesN * kWarpTile, left = row < tiles.height() ? n - tile.y - x - column : 0;
        if (vectorised)
          store4<true>(to + static_cast<long long>(row) * n + column, sum.at, left);
        else
          store4<false>(to + static_cast<long long>(row) * n + column, sum.at, left);
      }
    }
  }
}

}  // namespace warpwise::sm90
