// float32 on Hopper, matmul's k13 in halves: two blocks an SM, in each of which four warps feed a ring of slices and
// four multiply, so that one block's sums leave while the other multiplies.
//
// A batch's sums may be 64 or 128 deep, and then k13, alone on its SM, would spend a quarter of its time on writing.
// Four warps of 48 registers and four of 208, twice, are an SM's registers. A warp multiplies 64 x 64, a thread 8 x
// 16; tiles of fewer than four such share out each slice's depth among the warps and add their sums at the end.

#include <warpwise/core/float4.cuh>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/mbarrier.cuh>
#include <warpwise/sm90/tma.cuh>
#include <warpwise/sm90/warpgroup.cuh>

#include "../matmul/feed.cuh"
#include "boxes.cuh"

namespace sm90 = warpwise::sm90;
using warpwise::Feed, warpwise::Operand, warpwise::PipelineState, warpwise::Float4, sm90::TensorMap;

constexpr int kWarpTile = 64, kWarps = 4, kFeedWarps = 4, kThreads = (kFeedWarps + kWarps) * 32;
constexpr int kFeeding = 48, kMultiplying = 208;                        // registers
constexpr int kPitch = kWarpTile + 16, kStaging = kWarps * 8 * kPitch;  // sums on their way out

// A factor of every product of the batch: its first matrix, and the way to the next one, in elements, or in boxes where
// the copy engine brings it; 0 if there is one for all.
struct Factor {
  Operand first;
  long long matrix;
};

// A block's tile is BM x BN; maps have boxes of 1 x DEPTH x BM and 1 x DEPTH x BN. rows, columns: tiles of a matrix.
template <int BM, int BN, int DEPTH, int STAGES, Feed FEED_A, Feed FEED_B>
__device__ __forceinline__ void multiply(const TensorMap* a_map, const TensorMap* b_map, const Factor& a,
                                         const Factor& b, float* __restrict__ c, int batch, int rows, int columns,
                                         int group) {
  constexpr int kTilesN = BN / kWarpTile, kTiles = BM / kWarpTile * kTilesN, kSplit = kWarps / kTiles;
  constexpr int kSteps = DEPTH / kSplit, kPitchA = slice_pitch(FEED_A, BM), kPitchB = slice_pitch(FEED_B, BN);
  constexpr int kFloatsA = DEPTH * kPitchA, kFloats = kFloatsA + DEPTH * kPitchB;
  constexpr bool kEngineA = FEED_A == warpwise::kEngine, kEngineB = FEED_B == warpwise::kEngine;
  constexpr bool kEngine = kEngineA || kEngineB, kWords = !(kEngineA && kEngineB);
  constexpr unsigned kBoxes = ((kEngineA ? BM : 0) + (kEngineB ? BN : 0)) * DEPTH * 4;
  static_assert(kSplit * kTiles == kWarps && kSteps % 2 == 0, "all warps multiply, and fragments alternate");
  static_assert(STAGES >= kFeedWarps, "a warp's next slice goes elsewhere than its last");

  extern __shared__ unsigned char raw[];
  float* const ring = reinterpret_cast<float*>(raw + (-warpwise::shared_address(raw) & 127));  // boxes lie on 128 bytes
  float* const staging = ring + STAGES * kFloats;
  const unsigned full = warpwise::shared_address(staging + kStaging), empty = full + 8 * STAGES;
  const int m = a.first.extent, n = b.first.extent, slices = (a.first.depth + DEPTH - 1) / DEPTH;
  const int of_matrix = rows * columns, tiles = batch * of_matrix;

  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) {
      sm90::mbarrier_init(full + 8 * s, (kEngine ? 1 : 0) + (kWords ? 32 : 0));
      sm90::mbarrier_init(empty + 8 * s, kWarps);
    }
    sm90::fence_mbarrier_init();
  }
  __syncthreads();

  if (threadIdx.x < kFeedWarps * 32) {
    sm90::warpgroup_reg_dealloc<kFeeding>();
    int s = threadIdx.x / 32;   // a warp takes every fourth slice, counted on from tile to tile
    PipelineState place{s, 1};  // all are free at first
    for (int number = blockIdx.x; number < tiles; number += gridDim.x, s -= slices) {
      const int matrix = number / of_matrix;
      const int2 tile = warpwise::tile_at(number % of_matrix, rows, columns, group, BM, BN);
      const int matrix_a = kEngineA ? matrix * static_cast<int>(a.matrix) : 0;
      const int matrix_b = kEngineB ? matrix * static_cast<int>(b.matrix) : 0;
      const Operand from_a = {a.first.at + matrix * a.matrix, a.first.stride, m, a.first.depth};
      const Operand from_b = {b.first.at + matrix * b.matrix, b.first.stride, n, b.first.depth};
      for (; s < slices; s += kFeedWarps, place.advance(kFeedWarps, STAGES)) {
        const unsigned arrived = full + 8 * place.index;
        float* const to = ring + place.index * kFloats;
        sm90::mbarrier_wait(empty + 8 * place.index, place.phase);
        if (kEngine && threadIdx.x % 32 == 0) {
          sm90::mbarrier_arrive_expect_tx(arrived, kBoxes);
          if (kEngineA)
            warpwise::many::tma_load_2d(warpwise::shared_address(to), a_map, arrived, tile.x, s * DEPTH, matrix_a);
          if (kEngineB)
            warpwise::many::tma_load_2d(warpwise::shared_address(to + kFloatsA), b_map, arrived, tile.y, s * DEPTH,
                                        matrix_b);
        }
        if constexpr (!kEngineA) warpwise::copy_slice<FEED_A, BM, DEPTH>(to, from_a, tile.x, s * DEPTH);
        if constexpr (!kEngineB) warpwise::copy_slice<FEED_B, BN, DEPTH>(to + kFloatsA, from_b, tile.y, s * DEPTH);
        if (kWords) sm90::cp_async_mbarrier_arrive(arrived);
      }
    }
    return;
  }

  sm90::warpgroup_reg_alloc<kMultiplying>();
  const int warp = threadIdx.x / 32 - kFeedWarps, lane = threadIdx.x % 32;
  const int own = warp % kTiles, part = warp / kTiles;  // tile of 64 x 64, share of the depth
  const float* const a_lane = ring + part * kSteps * kPitchA + own / kTilesN * kWarpTile + lane / 4 * 4;
  const float* const b_lane = ring + kFloatsA + part * kSteps * kPitchB + own % kTilesN * kWarpTile + lane % 4 * 4;
  const float zero = batch < 0 ? 1.0f : 0.0f;  // which the compiler does not know
  PipelineState place{0, 0};
  for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
    float sums[8][16] = {};
    warpwise::add_slices<kSteps, kFloats, kPitchA, kPitchB, STAGES>(sums, a_lane, b_lane, slices, place, full, empty,
                                                                    lane == 0);

    const int2 tile = warpwise::tile_at(number % of_matrix, rows, columns, group, BM, BN);
    const int thread = warpwise::thread_again() - kFeedWarps * 32, r = thread / 16, x = thread % 16 * 4;
    float* const to = c + static_cast<long long>(number / of_matrix) * m * n + tile.y + x;
    float* const mine = staging + (thread / 32 * 8 + thread % 32 / 4) * kPitch + thread % 4 * 4;
    const bool quads = n % 4 == 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {  // every fourth row of half a warp's tile at a time
      sm90::named_barrier_sync(1, kWarps * 32);
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        // By way of an addition, since a quad's registers are neighbours, and sums in them would meet in their banks.
        const Float4 quad = {sums[i][4 * q] + zero, sums[i][4 * q + 1] + zero, sums[i][4 * q + 2] + zero,
                             sums[i][4 * q + 3] + zero};
        *reinterpret_cast<Float4*>(mine + q * 16) = quad;
      }
      sm90::named_barrier_sync(1, kWarps * 32);
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        Float4 sum = *reinterpret_cast<const Float4*>(staging + (t * 8 + r) * kPitch + x);
#pragma unroll
        for (int p = 1; p < kSplit; ++p) {
          const Float4 more = *reinterpret_cast<const Float4*>(staging + ((p * kTiles + t) * 8 + r) * kPitch + x);
#pragma unroll
          for (int e = 0; e < 4; ++e) sum.at[e] += more.at[e];
        }
        const int row = tile.x + t / kTilesN * kWarpTile + i / 4 * 32 + r * 4 + i % 4;
        const int column = t % kTilesN * kWarpTile, left = row < m ? n - tile.y - x - column : 0;
        if (quads)
          warpwise::store4<true>(to + static_cast<long long>(row) * n + column, sum.at, left);
        else
          warpwise::store4<false>(to + static_cast<long long>(row) * n + column, sum.at, left);
      }
    }
  }
}

// a: (batch, m, k), b: (batch, k, n), c: (batch, m, n), c row-major. Grid: at most two blocks an SM. Dynamic shared
// memory: 128 bytes to align, STAGES slices, kStaging floats and 16 * STAGES bytes. Which kernel: whose operands the
// copy engine brings; a_matrix, b_matrix as for Factor.
template <int BM, int BN, int DEPTH, int STAGES>
__global__ void __launch_bounds__(kThreads, 2) batched_matmul_boxes(
    const __grid_constant__ TensorMap a, long long a_matrix, const __grid_constant__ TensorMap b, long long b_matrix,
    float* __restrict__ c, int batch, int m, int n, int k, int rows, int columns, int group) {
  multiply<BM, BN, DEPTH, STAGES, warpwise::kEngine, warpwise::kEngine>(
      &a, &b, {{nullptr, 0, m, k}, a_matrix}, {{nullptr, 0, n, k}, b_matrix}, c, batch, rows, columns, group);
}

template <int BM, int BN, int DEPTH, int STAGES, Feed FEED_A>
__global__ void __launch_bounds__(kThreads, 2) batched_matmul_words_and_boxes(
    const float* __restrict__ a, long long a_stride, long long a_matrix, const __grid_constant__ TensorMap b,
    long long b_matrix, float* __restrict__ c, int batch, int m, int n, int k, int rows, int columns, int group) {
  multiply<BM, BN, DEPTH, STAGES, FEED_A, warpwise::kEngine>(
      nullptr, &b, {{a, a_stride, m, k}, a_matrix}, {{nullptr, 0, n, k}, b_matrix}, c, batch, rows, columns, group);
}

template <int BM, int BN, int DEPTH, int STAGES, Feed FEED_A, Feed FEED_B>
__global__ void __launch_bounds__(kThreads, 2) batched_matmul_words(const float* __restrict__ a, long long a_stride,
                                                                    long long a_matrix, const float* __restrict__ b,
                                                                    long long b_stride, long long b_matrix,
                                                                    float* __restrict__ c, int batch, int m, int n,
                                                                    int k, int rows, int columns, int group) {
  multiply<BM, BN, DEPTH, STAGES, FEED_A, FEED_B>(nullptr, nullptr, {{a, a_stride, m, k}, a_matrix},
                                                  {{b, b_stride, n, k}, b_matrix}, c, batch, rows, columns, group);
}
