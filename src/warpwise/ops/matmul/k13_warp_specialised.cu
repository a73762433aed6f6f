// Hopper's roles on the CUDA cores: four warps feed a ring of slices, eight multiply, and barriers in shared memory are
// all that they share. Nobody waits for a block, and the loop of the multiplying warps holds no address, no edge and no
// copy: 8 steps are 1024 multiply-adds in 1106 instructions.
//
// A step's two quads of A and four of B are fetched under the products of the step before. Tiles below 128 x 256 have
// fewer than eight warp tiles: warps then share out each slice's depth and add their sums at the end, so that the loop
// stays what it is at every size. Tiles that fill no round of blocks may be divided: their parts of K are pieces of
// their own, whose sums a second launch adds.

#include <warpwise/core/float4.cuh>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/mbarrier.cuh>
#include <warpwise/sm90/tma.cuh>
#include <warpwise/sm90/warpgroup.cuh>

#include "feed.cuh"
#include "leaving.cuh"

namespace sm90 = warpwise::sm90;
using warpwise::Feed, warpwise::Operand, warpwise::PipelineState, warpwise::Piece, warpwise::Parts, sm90::TensorMap;

constexpr int kFeedWarps = 4, kThreads = kFeedWarps * 32 + warpwise::kMultiplying;

// A block's tile is BM x BN; maps have boxes of DEPTH x BM and DEPTH x BN.
template <int BM, int BN, int DEPTH, int STAGES, Feed FEED_A, Feed FEED_B>
__device__ __forceinline__ void multiply(const TensorMap* a_map, const TensorMap* b_map, const Operand& a,
                                         const Operand& b, float* __restrict__ c, int rows, int columns, int group,
                                         const Parts& parts) {
  using W = warpwise::Warps<BM, BN>;
  constexpr int kSteps = DEPTH / W::split, kPitchA = slice_pitch(FEED_A, BM), kPitchB = slice_pitch(FEED_B, BN);
  constexpr int kFloatsA = DEPTH * kPitchA, kFloats = kFloatsA + DEPTH * kPitchB;
  constexpr bool kEngineA = FEED_A == warpwise::kEngine, kEngineB = FEED_B == warpwise::kEngine;
  constexpr bool kEngine = kEngineA || kEngineB, kWords = !(kEngineA && kEngineB);
  constexpr unsigned kBoxes = ((kEngineA ? BM : 0) + (kEngineB ? BN : 0)) * DEPTH * 4;
  // Registers that a feeding and a multiplying warp's lanes keep: in all those of 12 warps with 168.
  constexpr int kGiven = W::split == 1 && kEngineB ? 56 : 72, kTaken = (12 * 168 - kFeedWarps * kGiven) / 8;
  static_assert(kSteps % 8 == 0, "whole rounds of the loop");
  static_assert(STAGES >= kFeedWarps, "a warp's next slice goes elsewhere than its last");

  extern __shared__ unsigned char raw[];
  float* const ring = reinterpret_cast<float*>(raw + (-warpwise::shared_address(raw) & 127));  // boxes lie on 128 bytes
  float* const staging = ring + STAGES * kFloats;
  const unsigned full = warpwise::shared_address(staging + warpwise::kStaging), empty = full + 8 * STAGES;
  const int slices = (a.depth + DEPTH - 1) / DEPTH, tiles = rows * columns;
  const int pieces = parts.whole + (tiles - parts.whole) * parts.count;

  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) {
      sm90::mbarrier_init(full + 8 * s, (kEngine ? 1 : 0) + (kWords ? 32 : 0));
      sm90::mbarrier_init(empty + 8 * s, warpwise::kWarps);
    }
    sm90::fence_mbarrier_init();
  }
  __syncthreads();

  if (threadIdx.x < kFeedWarps * 32) {
    sm90::warpgroup_reg_dealloc<kGiven>();
    int s = threadIdx.x / 32;   // a warp takes every fourth slice, counted on from piece to piece
    PipelineState place{s, 1};  // all are free at first
    for (int number = blockIdx.x; number < pieces; number += gridDim.x) {
      const Piece piece(number, slices, parts);
      const int2 tile = warpwise::tile_at(piece.tile, rows, columns, group, BM, BN);
      for (; s < piece.slices; s += kFeedWarps, place.advance(kFeedWarps, STAGES)) {
        const unsigned arrived = full + 8 * place.index;
        float* const to = ring + place.index * kFloats;
        const int depth = (piece.first + s) * DEPTH;
        sm90::mbarrier_wait(empty + 8 * place.index, place.phase);
        if (kEngine && threadIdx.x % 32 == 0) {
          sm90::mbarrier_arrive_expect_tx(arrived, kBoxes);
          if (kEngineA) sm90::tma_load_2d(warpwise::shared_address(to), a_map, arrived, tile.x, depth);
          if (kEngineB) sm90::tma_load_2d(warpwise::shared_address(to + kFloatsA), b_map, arrived, tile.y, depth);
        }
        if constexpr (!kEngineA) warpwise::copy_slice<FEED_A, BM, DEPTH>(to, a, tile.x, depth);
        if constexpr (!kEngineB) warpwise::copy_slice<FEED_B, BN, DEPTH>(to + kFloatsA, b, tile.y, depth);
        if (kWords) sm90::cp_async_mbarrier_arrive(arrived);
      }
      s -= piece.slices;
    }
    return;
  }

  sm90::warpgroup_reg_alloc<kTaken>();
  const int warp = threadIdx.x / 32 - kFeedWarps, lane = threadIdx.x % 32;
  const int own = warp % W::tiles, share = warp / W::tiles * kSteps;  // tile of a warp, its share of the depth
  const float* const a_lane = ring + share * kPitchA + own / W::tiles_n * W::rows + lane / W::across * 4;
  const float* const b_lane = ring + kFloatsA + share * kPitchB + own % W::tiles_n * W::columns + lane % W::across * 4;
  const float zero = rows < 0 ? 1.0f : 0.0f;
  PipelineState place{0, 0};
  for (int number = blockIdx.x; number < pieces; number += gridDim.x) {
    float sums[8][16] = {};
    const int count = Piece(number, slices, parts).slices;
    warpwise::add_slices<kSteps, kFloats, kPitchA, kPitchB, STAGES, W::rows / 2, W::columns / 4, kEngineB>(
        sums, a_lane, b_lane, count, place, full, empty, lane == 0);

    const Piece piece(number, slices, parts);
    const int2 tile = warpwise::tile_at(piece.tile, rows, columns, group, BM, BN);
    const int thread = warpwise::thread_again() - kFeedWarps * 32;
    const bool whole = piece.part < 0;
    const long long slot = static_cast<long long>(piece.tile - parts.whole) * parts.count + piece.part;
    warpwise::leave<BM, BN>(sums, staging, whole ? c : parts.sums + slot * (BM * BN), whole ? a.extent : BM,
                            whole ? b.extent : BN, whole ? tile : int2{0, 0}, thread, zero);
  }
}

// a: (m, k), b: (k, n), c: (m, n), c row-major. Grid: at most one block an SM. Dynamic shared memory: 128 bytes to
// align, STAGES slices, kStaging floats and 16 * STAGES bytes. Which kernel: whose operands the copy engine brings.
template <int BM, int BN, int DEPTH, int STAGES>
__global__ void __launch_bounds__(kThreads, 1) matmul_boxes(const __grid_constant__ TensorMap a,
                                                            const __grid_constant__ TensorMap b, float* __restrict__ c,
                                                            int m, int n, int k, int rows, int columns, int group,
                                                            float* sums, int whole, int count) {
  multiply<BM, BN, DEPTH, STAGES, warpwise::kEngine, warpwise::kEngine>(&a, &b, {nullptr, 0, m, k}, {nullptr, 0, n, k},
                                                                        c, rows, columns, group, {sums, whole, count});
}

template <int BM, int BN, int DEPTH, int STAGES, Feed FEED_A>
__global__ void __launch_bounds__(kThreads, 1) matmul_words_and_boxes(const float* __restrict__ a, long long a_stride,
                                                                      const __grid_constant__ TensorMap b,
                                                                      float* __restrict__ c, int m, int n, int k,
                                                                      int rows, int columns, int group, float* sums,
                                                                      int whole, int count) {
  multiply<BM, BN, DEPTH, STAGES, FEED_A, warpwise::kEngine>(nullptr, &b, {a, a_stride, m, k}, {nullptr, 0, n, k}, c,
                                                             rows, columns, group, {sums, whole, count});
}

template <int BM, int BN, int DEPTH, int STAGES, Feed FEED_A, Feed FEED_B>
__global__ void __launch_bounds__(kThreads, 1) matmul_words(const float* __restrict__ a, long long a_stride,
                                                            const float* __restrict__ b, long long b_stride,
                                                            float* __restrict__ c, int m, int n, int k, int rows,
                                                            int columns, int group, float* sums, int whole, int count) {
  multiply<BM, BN, DEPTH, STAGES, FEED_A, FEED_B>(nullptr, nullptr, {a, a_stride, m, k}, {b, b_stride, n, k}, c, rows,
                                                  columns, group, {sums, whole, count});
}

// Adds the parts of divided tiles in a fixed order and writes them to c: (m, n), V neighbours a thread; c's rows lie on
// as many elements. `sums`, `whole`, `count`: as for Parts. Block: 256 threads, of which `groups` (1, 2, 4 or 8) take
// every groups-th part of the same neighbours. Grid: BM * BN / V * groups / 256 blocks a tile from `whole` on.
template <int BM, int BN, int V>
__global__ void __launch_bounds__(256) add_parts(const float* __restrict__ sums, float* __restrict__ c, int m, int n,
                                                 int rows, int columns, int group, int whole, int count, int groups) {
  using Values = warpwise::Vector<float, V>;
  constexpr int kOfRow = BN / V;
  __shared__ Values of_thread[256];
  const int at_once = 256 / groups, blocks = BM * kOfRow / at_once, rest = blockIdx.x / blocks;
  const int item = blockIdx.x % blocks * at_once + threadIdx.x % at_once, first = threadIdx.x / at_once;
  const int2 tile = warpwise::tile_at(whole + rest, rows, columns, group, BM, BN);
  const int row = tile.x + item / kOfRow;
  float* const line = c + static_cast<long long>(row) * n + tile.y;
  const int x = item % kOfRow * V;
  const bool inside = row < m && x < n - tile.y;
  Values sum = {};
  if (inside) {
    const float* const from = sums + static_cast<long long>(rest) * count * (BM * BN) + item / kOfRow * BN + x;
#pragma unroll 4
    for (int part = first; part < count; part += groups) {
      const auto more = *reinterpret_cast<const Values*>(from + part * (BM * BN));
#pragma unroll
      for (int i = 0; i < V; ++i) sum.at[i] += more.at[i];
    }
  }
  of_thread[threadIdx.x] = sum;
  __syncthreads();
  if (!inside || first > 0) return;
  for (int other = 1; other < groups; ++other) {
#pragma unroll
    for (int i = 0; i < V; ++i) sum.at[i] += of_thread[other * at_once + threadIdx.x].at[i];
  }
  *reinterpret_cast<Values*>(line + x) = sum;
}
