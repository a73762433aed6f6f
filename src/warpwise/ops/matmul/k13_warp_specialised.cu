// Hopper's roles on the CUDA cores: four warps feed a ring of slices, eight multiply, and barriers in shared memory are
// all that they share. Nobody waits for a block, and the loop of the multiplying warps holds no address, no edge and no
// copy: 8 steps are 1024 multiply-adds in 1106 instructions.
//
// A step's two quads of A and four of B are fetched under the products of the step before. Tiles below 128 x 256 have
// fewer than eight warp tiles: warps then share out each slice's depth and add their sums at the end, so that the loop
// stays what it is at every size.

#include <warpwise/hopper.cuh>
#include <warpwise/tile.cuh>

#include "feed.cuh"

namespace hopper = warpwise::hopper;
using warpwise::Feed, warpwise::Operand, warpwise::Place, warpwise::Float4, hopper::TensorMap;

constexpr int kWarpTile = 64, kWarps = 8, kFeedWarps = 4, kThreads = (kFeedWarps + kWarps) * 32;
constexpr int kPitch = kWarpTile + 1, kStaging = kWarps * 8 * kPitch;  // sums on their way out

// A block's tile is BM x BN, a warp's 64 x 64, a thread's 8 x 16; maps have boxes of DEPTH x BM and DEPTH x BN.
template <int BM, int BN, int DEPTH, int STAGES, Feed FEED_A, Feed FEED_B>
__device__ __forceinline__ void multiply(const TensorMap* a_map, const TensorMap* b_map, const Operand& a,
                                         const Operand& b, float* __restrict__ c, int rows, int columns, int group) {
  constexpr int kTilesN = BN / kWarpTile, kTiles = BM / kWarpTile * kTilesN, kSplit = kWarps / kTiles;
  constexpr int kSteps = DEPTH / kSplit, kPitchA = slice_pitch(FEED_A, BM), kPitchB = slice_pitch(FEED_B, BN);
  constexpr int kFloatsA = DEPTH * kPitchA, kFloats = kFloatsA + DEPTH * kPitchB;
  constexpr bool kEngineA = FEED_A == warpwise::kEngine, kEngineB = FEED_B == warpwise::kEngine;
  constexpr bool kEngine = kEngineA || kEngineB, kWords = !(kEngineA && kEngineB);
  constexpr unsigned kBoxes = ((kEngineA ? BM : 0) + (kEngineB ? BN : 0)) * DEPTH * 4;
  static_assert(kSplit * kTiles == kWarps && kSteps % 2 == 0, "all warps multiply, and fragments alternate");
  static_assert(STAGES >= kFeedWarps, "a warp's next slice goes elsewhere than its last");

  extern __shared__ unsigned char raw[];
  float* const ring = reinterpret_cast<float*>(raw + (-hopper::shared_address(raw) & 127));  // boxes lie on 128 bytes
  float* const staging = ring + STAGES * kFloats;
  const unsigned full = hopper::shared_address(staging + kStaging), empty = full + 8 * STAGES;
  const int slices = (a.depth + DEPTH - 1) / DEPTH, tiles = rows * columns;

  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) {
      hopper::barrier_init(full + 8 * s, (kEngine ? 1 : 0) + (kWords ? 32 : 0));
      hopper::barrier_init(empty + 8 * s, kWarps);
    }
    hopper::barrier_init_fence();
  }
  __syncthreads();

  if (threadIdx.x < kFeedWarps * 32) {
    hopper::give_registers<72>();
    int s = threadIdx.x / 32;  // a warp takes every fourth slice, counted on from tile to tile
    Place place{s, 1};         // all are free at first
    for (int number = blockIdx.x; number < tiles; number += gridDim.x, s -= slices) {
      const int2 tile = warpwise::tile_at(number, rows, columns, group, BM, BN);
      for (; s < slices; s += kFeedWarps, place.advance(kFeedWarps, STAGES)) {
        const unsigned arrived = full + 8 * place.index;
        float* const to = ring + place.index * kFloats;
        hopper::barrier_wait(empty + 8 * place.index, place.phase);
        if (kEngine && threadIdx.x % 32 == 0) {
          hopper::barrier_expect(arrived, kBoxes);
          if (kEngineA) hopper::load_box(hopper::shared_address(to), a_map, arrived, tile.x, s * DEPTH);
          if (kEngineB) hopper::load_box(hopper::shared_address(to + kFloatsA), b_map, arrived, tile.y, s * DEPTH);
        }
        if constexpr (!kEngineA) warpwise::copy_slice<FEED_A, BM, DEPTH>(to, a, tile.x, s * DEPTH);
        if constexpr (!kEngineB) warpwise::copy_slice<FEED_B, BN, DEPTH>(to + kFloatsA, b, tile.y, s * DEPTH);
        if (kWords) hopper::barrier_arrive_after_copies(arrived);
      }
    }
    return;
  }

  hopper::take_registers<216>();
  const int warp = threadIdx.x / 32 - kFeedWarps, lane = threadIdx.x % 32;
  const int own = warp % kTiles, part = warp / kTiles;  // tile of 64 x 64, share of the depth
  const float* const a_lane = ring + part * kSteps * kPitchA + own / kTilesN * kWarpTile + lane / 4 * 4;
  const float* const b_lane = ring + kFloatsA + part * kSteps * kPitchB + own % kTilesN * kWarpTile + lane % 4 * 4;
  Place place{0, 0};
  for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
    float sums[8][16] = {};
    warpwise::add_slices<kSteps, kFloats, kPitchA, kPitchB, STAGES>(sums, a_lane, b_lane, slices, place, full, empty,
                                                                    lane == 0);

    const int2 tile = warpwise::tile_at(number, rows, columns, group, BM, BN);
    const unsigned thread = warpwise::thread_again() - kFeedWarps * 32;
    volatile float* const mine = staging + (thread / 32 * 8 + thread % 32 / 4) * kPitch + thread % 4 * 4;
#pragma unroll
    for (int i = 0; i < 8; ++i) {  // every fourth row of half a warp's tile at a time
      hopper::named_barrier(1, kWarps * 32);
#pragma unroll
      for (int j = 0; j < 16; ++j) mine[j / 4 * 16 + j % 4] = sums[i][j];
      hopper::named_barrier(1, kWarps * 32);
#pragma unroll 4
      for (unsigned e = thread; e < kTiles * 512; e += kWarps * 32) {
        const unsigned from = e / 512, r = e / 64 % 8, x = e % 64;
        float sum = 0;
#pragma unroll
        for (int p = 0; p < kSplit; ++p) sum += staging[((p * kTiles + from) * 8 + r) * kPitch + x];
        const int row = tile.x + from / kTilesN * kWarpTile + i / 4 * 32 + r * 4 + i % 4;
        const int column = tile.y + from % kTilesN * kWarpTile + x;
        if (row < a.extent && column < b.extent) c[static_cast<long long>(row) * b.extent + column] = sum;
      }
    }
  }
}

// a: (m, k), b: (k, n), c: (m, n), c row-major. Grid: at most one block an SM. Dynamic shared memory: 128 bytes to
// align, STAGES slices, kStaging floats and 16 * STAGES bytes. Which kernel: whose operands the copy engine brings.
template <int BM, int BN, int DEPTH, int STAGES>
__global__ void __launch_bounds__(kThreads, 1) matmul_boxes(const __grid_constant__ TensorMap a,
                                                            const __grid_constant__ TensorMap b, float* __restrict__ c,
                                                            int m, int n, int k, int rows, int columns, int group) {
  multiply<BM, BN, DEPTH, STAGES, warpwise::kEngine, warpwise::kEngine>(&a, &b, {nullptr, 0, m, k}, {nullptr, 0, n, k},
                                                                        c, rows, columns, group);
}

template <int BM, int BN, int DEPTH, int STAGES, Feed FEED_A>
__global__ void __launch_bounds__(kThreads, 1) matmul_words_and_boxes(const float* __restrict__ a, long long a_stride,
                                                                      const __grid_constant__ TensorMap b,
                                                                      float* __restrict__ c, int m, int n, int k,
                                                                      int rows, int columns, int group) {
  multiply<BM, BN, DEPTH, STAGES, FEED_A, warpwise::kEngine>(nullptr, &b, {a, a_stride, m, k}, {nullptr, 0, n, k}, c,
                                                             rows, columns, group);
}

template <int BM, int BN, int DEPTH, int STAGES, Feed FEED_A, Feed FEED_B>
__global__ void __launch_bounds__(kThreads, 1) matmul_words(const float* __restrict__ a, long long a_stride,
                                                            const float* __restrict__ b, long long b_stride,
                                                            float* __restrict__ c, int m, int n, int k, int rows,
                                                            int columns, int group) {
  multiply<BM, BN, DEPTH, STAGES, FEED_A, FEED_B>(nullptr, nullptr, {a, a_stride, m, k}, {b, b_stride, n, k}, c, rows,
                                                  columns, group);
}
