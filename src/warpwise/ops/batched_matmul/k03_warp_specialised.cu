// k11 of matmul with half the block: two blocks per SM, each with four producer and four consumer warps.
//
// The epilogue of one block overlaps with the main loop of the other. In batches K may be 64 or 128; k11, with one
// block per SM, would spend a quarter of its time in the epilogue. Two blocks, each with four warps of 48 registers per
// thread and four of 208, use all registers of an SM. A warp computes 64 x 64, a thread 8 x 16; in block tiles with
// fewer than four warp tiles the warps divide each k-tile and add their sums in the epilogue.

#include <warpwise/core/float4.cuh>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/pipeline.cuh>
#include <warpwise/sm90/tma.cuh>
#include <warpwise/sm90/warpgroup.cuh>

#include <warpwise/sm90/gemm_simt.cuh>

namespace sm90 = warpwise::sm90;
using warpwise::OperandLoad, warpwise::Operand, sm90::PipelineState, warpwise::Float4, sm90::TensorMap;

constexpr int kWarpTile = 64, kWarps = 4, kProducerWarps = 4, kThreads = (kProducerWarps + kWarps) * 32;
constexpr int kProducerRegisters = 48, kConsumerRegisters = 208;        // registers per thread
constexpr int kPitch = kWarpTile + 16, kStaging = kWarps * 8 * kPitch;  // staged sums

// An operand of a batch: its first matrix, and the stride to the next one, in elements, or in boxes for TMA; 0 if it
// is broadcast.
struct BatchOperand {
  Operand first;
  long long matrix;
};

// A block tile is BM x BN; tensor maps have boxes of 1 x TILE_K x BM and 1 x TILE_K x BN. rows, columns: tiles of a
// matrix.
template <int BM, int BN, int TILE_K, int STAGES, OperandLoad LOAD_A, OperandLoad LOAD_B>
__device__ __forceinline__ void multiply(const TensorMap* a_map, const TensorMap* b_map, const BatchOperand& a,
                                         const BatchOperand& b, float* __restrict__ c, int batch, int rows, int columns,
                                         int group) {
  constexpr int kTilesN = BN / kWarpTile, kTiles = BM / kWarpTile * kTilesN, kSplit = kWarps / kTiles;
  constexpr int kSteps = TILE_K / kSplit, kPitchA = k_tile_pitch(LOAD_A, BM), kPitchB = k_tile_pitch(LOAD_B, BN);
  constexpr int kFloatsA = TILE_K * kPitchA, kFloats = kFloatsA + TILE_K * kPitchB;
  constexpr bool kTmaA = LOAD_A == warpwise::kTma, kTmaB = LOAD_B == warpwise::kTma;
  constexpr bool kTma = kTmaA || kTmaB, kCpAsync = !(kTmaA && kTmaB);
  constexpr unsigned kTmaBytes = ((kTmaA ? BM : 0) + (kTmaB ? BN : 0)) * TILE_K * 4;
  static_assert(kSplit * kTiles == kWarps && kSteps % 2 == 0,
                "the tile occupies all warps; fragments are double-buffered");
  static_assert(STAGES >= kProducerWarps, "consecutive k-tiles of a producer warp use different stages");

  extern __shared__ unsigned char raw[];
  float* const ring =
      reinterpret_cast<float*>(raw + (-warpwise::shared_address(raw) & 127));  // TMA needs 128-byte alignment
  float* const staging = ring + STAGES * kFloats;
  const sm90::Pipeline pipeline(warpwise::shared_address(staging + kStaging), STAGES);
  const int m = a.first.extent, n = b.first.extent, k_tiles = (a.first.k + TILE_K - 1) / TILE_K;
  const int tiles_per_matrix = rows * columns, tiles = batch * tiles_per_matrix;

  if (threadIdx.x == 0) {
    pipeline.init((kTma ? 1 : 0) + (kCpAsync ? 32 : 0), kWarps);
    sm90::fence_mbarrier_init();
  }
  __syncthreads();

  if (threadIdx.x < kProducerWarps * 32) {
    sm90::warpgroup_reg_dealloc<kProducerRegisters>();
    int s = threadIdx.x / 32;   // a warp loads every fourth k-tile, counted across tiles
    PipelineState state{s, 1};  // all stages are free at first
    for (int tile_index = blockIdx.x; tile_index < tiles; tile_index += gridDim.x, s -= k_tiles) {
      const int matrix = tile_index / tiles_per_matrix;
      const int2 tile = warpwise::tile_at(tile_index % tiles_per_matrix, rows, columns, group, BM, BN);
      const int matrix_a = kTmaA ? matrix * static_cast<int>(a.matrix) : 0;
      const int matrix_b = kTmaB ? matrix * static_cast<int>(b.matrix) : 0;
      const Operand from_a = {a.first.at + matrix * a.matrix, a.first.stride, m, a.first.k};
      const Operand from_b = {b.first.at + matrix * b.matrix, b.first.stride, n, b.first.k};
      for (; s < k_tiles; s += kProducerWarps, state.advance(kProducerWarps, STAGES)) {
        const unsigned full_barrier = pipeline.full_barrier(state.index);
        float* const to = ring + state.index * kFloats;
        pipeline.producer_acquire(state);
        if (kTma && threadIdx.x % 32 == 0) {
          sm90::mbarrier_arrive_expect_tx(full_barrier, kTmaBytes);
          if (kTmaA)
            warpwise::sm90::tma_load_3d(warpwise::shared_address(to), a_map, full_barrier, tile.x, s * TILE_K,
                                        matrix_a);
          if (kTmaB)
            warpwise::sm90::tma_load_3d(warpwise::shared_address(to + kFloatsA), b_map, full_barrier, tile.y,
                                        s * TILE_K, matrix_b);
        }
        if constexpr (!kTmaA) warpwise::copy_k_tile<LOAD_A, BM, TILE_K>(to, from_a, tile.x, s * TILE_K);
        if constexpr (!kTmaB) warpwise::copy_k_tile<LOAD_B, BN, TILE_K>(to + kFloatsA, from_b, tile.y, s * TILE_K);
        if (kCpAsync) sm90::cp_async_mbarrier_arrive(full_barrier);
      }
    }
    return;
  }

  sm90::warpgroup_reg_alloc<kConsumerRegisters>();
  const int warp = threadIdx.x / 32 - kProducerWarps, lane = threadIdx.x % 32;
  const int warp_tile = warp % kTiles, k_group = warp / kTiles;  // the warp tile, and the warp's steps of a k-tile
  const float* const a_lane = ring + k_group * kSteps * kPitchA + warp_tile / kTilesN * kWarpTile + lane / 4 * 4;
  const float* const b_lane =
      ring + kFloatsA + k_group * kSteps * kPitchB + warp_tile % kTilesN * kWarpTile + lane % 4 * 4;
  const float zero = batch < 0 ? 1.0f : 0.0f;  // 0, but not a constant to the compiler
  PipelineState state{0, 0};
  for (int tile_index = blockIdx.x; tile_index < tiles; tile_index += gridDim.x) {
    float sums[8][16] = {};
    warpwise::multiply_k_tiles<kSteps, kFloats, kPitchA, kPitchB, STAGES, 32, 16, false, 1>(
        sums, a_lane, b_lane, k_tiles, pipeline, state, lane == 0);

    const int2 tile = warpwise::tile_at(tile_index % tiles_per_matrix, rows, columns, group, BM, BN);
    const int thread = warpwise::reread_thread_index() - kProducerWarps * 32, r = thread / 16, x = thread % 16 * 4;
    float* const to = c + static_cast<long long>(tile_index / tiles_per_matrix) * m * n + tile.y + x;
    float* const own_words = staging + (thread / 32 * 8 + thread % 32 / 4) * kPitch + thread % 4 * 4;
    const bool vectorised = n % 4 == 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {  // every fourth row of half a warp tile at a time
      sm90::named_barrier_sync(1, kWarps * 32);
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        // The addition avoids accumulators in consecutive registers, which would have register bank conflicts.
        const Float4 vector = {sums[i][4 * q] + zero, sums[i][4 * q + 1] + zero, sums[i][4 * q + 2] + zero,
                               sums[i][4 * q + 3] + zero};
        *reinterpret_cast<Float4*>(own_words + q * 16) = vector;
      }
      sm90::named_barrier_sync(1, kWarps * 32);
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
        const int column = t % kTilesN * kWarpTile, left = row < m ? n - tile.y - x - column : 0;
        if (vectorised)
          warpwise::store4<true>(to + static_cast<long long>(row) * n + column, sum.at, left);
        else
          warpwise::store4<false>(to + static_cast<long long>(row) * n + column, sum.at, left);
      }
    }
  }
}

// a: (batch, m, k), b: (batch, k, n), c: (batch, m, n), c row-major; a_matrix, b_matrix: see BatchOperand. The kernels
// differ in the operands that TMA loads. Grid: at most two blocks per SM. Dynamic shared memory: 128 bytes for
// alignment, STAGES k-tiles, kStaging floats and 16 * STAGES bytes.
template <int BM, int BN, int TILE_K, int STAGES>
__global__ void __launch_bounds__(kThreads, 2) batched_matmul_tma(
    const __grid_constant__ TensorMap a, long long a_matrix, const __grid_constant__ TensorMap b, long long b_matrix,
    float* __restrict__ c, int batch, int m, int n, int k, int rows, int columns, int group) {
  multiply<BM, BN, TILE_K, STAGES, warpwise::kTma, warpwise::kTma>(
      &a, &b, {{nullptr, 0, m, k}, a_matrix}, {{nullptr, 0, n, k}, b_matrix}, c, batch, rows, columns, group);
}

template <int BM, int BN, int TILE_K, int STAGES, OperandLoad LOAD_A>
__global__ void __launch_bounds__(kThreads, 2) batched_matmul_tma_b(
    const float* __restrict__ a, long long a_stride, long long a_matrix, const __grid_constant__ TensorMap b,
    long long b_matrix, float* __restrict__ c, int batch, int m, int n, int k, int rows, int columns, int group) {
  multiply<BM, BN, TILE_K, STAGES, LOAD_A, warpwise::kTma>(
      nullptr, &b, {{a, a_stride, m, k}, a_matrix}, {{nullptr, 0, n, k}, b_matrix}, c, batch, rows, columns, group);
}

template <int BM, int BN, int TILE_K, int STAGES, OperandLoad LOAD_A, OperandLoad LOAD_B>
__global__ void __launch_bounds__(kThreads, 2) batched_matmul_cp_async(const float* __restrict__ a, long long a_stride,
                                                                       long long a_matrix, const float* __restrict__ b,
                                                                       long long b_stride, long long b_matrix,
                                                                       float* __restrict__ c, int batch, int m, int n,
                                                                       int k, int rows, int columns, int group) {
  multiply<BM, BN, TILE_K, STAGES, LOAD_A, LOAD_B>(nullptr, nullptr, {{a, a_stride, m, k}, a_matrix},
                                                   {{b, b_stride, n, k}, b_matrix}, c, batch, rows, columns, group);
}
