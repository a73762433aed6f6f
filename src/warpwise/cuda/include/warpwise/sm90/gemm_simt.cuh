// Main loop of the warp-specialised fp32 kernels: loads of k-tiles to shared memory as [k][m or n], so that the
// adjacent rows or columns that a thread multiplies are contiguous for either layout of the operand; the pipeline; the
// multiply-adds of its stages; the raster order of tiles.
#pragma once

#include <cuda_pipeline.h>
#include <warpwise/core/float4.cuh>
#include <warpwise/sm90/pipeline.cuh>
#include <warpwise/sm90/tile_scheduler.cuh>

namespace warpwise {

// How an operand is loaded. kTma: boxes by TMA, for MN-major operands with 16-byte aligned lines. kMnMajor,
// kKMajor: words by cp.async for MN-major and for K-major operands; the latter are transposed on the way.
enum OperandLoad { kTma, kMnMajor, kKMajor };

// Floats from one k to the next. A warp writes 8 k x 4 rows at once when it transposes; four words of padding put
// these in distinct banks.
constexpr int k_tile_pitch(OperandLoad load, int extent) { return load == kKMajor ? extent + 4 : extent; }

struct Operand {
  const float* at;
  long long stride;  // elements between lines
  int extent, k;     // m of A or n of B; k
};

// Copies a k-tile by one warp, asynchronously: EXTENT rows or columns from `mn` on, TILE_K from `k_offset` on. INSIDE:
// no element is past an edge. Elements past an edge are zero, since 0 * infinity would be NaN.
template <OperandLoad LOAD, int EXTENT, int TILE_K, bool INSIDE>
__device__ inline void copy_k_tile_words(float* to, const Operand& from, int mn, int k_offset) {
  constexpr int kPitch = k_tile_pitch(LOAD, EXTENT), kUnrolled = 8;  // copies in an unrolled iteration
  const int lane = threadIdx.x % 32;
  const auto copy = [&](float* to_word, const float* word, bool inside) {
    __pipeline_memcpy_async(to_word, INSIDE || inside ? word : from.at, 4, INSIDE || inside ? 0 : 4);
  };
  if (LOAD == kKMajor) {
    static_assert(LOAD != kKMajor || (EXTENT % 4 == 0 && TILE_K % 8 == 0), "a warp copies 4 x 8 words at once");
    mn += lane / 8;
    k_offset += lane % 8;
    const float* word = from.at + mn * from.stride + k_offset;
    to += lane % 8 * kPitch + lane / 8;
#pragma unroll(TILE_K / 8 < kUnrolled ? kUnrolled * 8 / TILE_K : 1)
    for (int i = 0; i < EXTENT; i += 4, word += 4 * from.stride) {
#pragma unroll
      for (int j = 0; j < TILE_K; j += 8)
        copy(to + j * kPitch + i, word + j, mn + i < from.extent && k_offset + j < from.k);
    }
  } else {
    static_assert(LOAD == kKMajor || EXTENT % 32 == 0, "a warp copies 32 words at once");
    mn += lane;
    const float* word = from.at + k_offset * from.stride + mn;
    to += lane;
#pragma unroll(EXTENT / 32 < kUnrolled ? kUnrolled * 32 / EXTENT : 1)
    for (int j = 0; j < TILE_K; ++j, word += from.stride) {
#pragma unroll
      for (int i = 0; i < EXTENT; i += 32)
        copy(to + j * kPitch + i, word + i, mn + i < from.extent && k_offset + j < from.k);
    }
  }
}

template <OperandLoad LOAD, int EXTENT, int TILE_K>
__device__ inline void copy_k_tile(float* to, const Operand& from, int mn, int k_offset) {
  if (mn + EXTENT <= from.extent && k_offset + TILE_K <= from.k)
    copy_k_tile_words<LOAD, EXTENT, TILE_K, true>(to, from, mn, k_offset);
  else
    copy_k_tile_words<LOAD, EXTENT, TILE_K, false>(to, from, mn, k_offset);
}

// The first row and column of a tile.
__device__ inline int2 tile_at(int tile, int rows, int columns, int group, int bm, int bn) {
  const sm90::Tile at = sm90::TileScheduler{rows, columns, group}.at(tile);
  return {at.row * bm, at.column * bn};
}

// threadIdx.x, read again: the values that the epilogue derives from it then take no registers during the main loop.
__device__ inline int reread_thread_index() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

// Accumulates the products of a tile's k-tiles to the 8 x 16 sums of a thread. The ring has STAGES stages of FLOATS
// floats; a warp multiplies STEPS of the k of a k-tile; one lane of a warp `releases` stages. a_lane, b_lane: the
// thread's first float4 in stage 0; the next ones are NEXT_A and NEXT_B floats further. The fragments of a step, two
// float4 of A and four of B, are loaded during the multiply-adds of the step before. A stage is released in step
// RELEASE of the next k-tile, once all fragments loaded from it have been used, after a __syncwarp there or, EARLY,
// after the last loads from it. These positions affect the order in which ptxas schedules the multiply-adds: by up to
// 2 % of the time on an H200.
template <int STEPS, int FLOATS, int PITCH_A, int PITCH_B, int STAGES, int NEXT_A = 32, int NEXT_B = 16,
          bool EARLY = false, int RELEASE = 0>
__device__ __forceinline__ void multiply_k_tiles(float (&sums)[8][16], const float* a_lane, const float* b_lane,
                                                 int k_tiles, const sm90::Pipeline& pipeline,
                                                 sm90::PipelineState& state, bool releases) {
  Float4 a_fragments[2][2], b_fragments[2][4];
  const auto load_fragments = [&](int step, int stage) {
    const float* const a_row = a_lane + stage * FLOATS + step * PITCH_A;
    const float* const b_row = b_lane + stage * FLOATS + step * PITCH_B;
#pragma unroll
    for (int q = 0; q < 2; ++q) a_fragments[step % 2][q] = *reinterpret_cast<const Float4*>(a_row + q * NEXT_A);
#pragma unroll
    for (int q = 0; q < 4; ++q) b_fragments[step % 2][q] = *reinterpret_cast<const Float4*>(b_row + q * NEXT_B);
  };
  pipeline.consumer_wait(state);
  load_fragments(0, state.index);
  unsigned previous_empty = 0;
  const auto release = [&] {
    if (!EARLY) __syncwarp();  // all lanes have read the stage
    if (releases) sm90::mbarrier_arrive(previous_empty, 0);
  };
  int stage = state.index;
  for (int s = 0; s < k_tiles; ++s) {
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      // After the last k-tile a fragment of the same stage is loaded, and not used: the next stage may not be full.
      if (step + 1 == STEPS) {
        const int last = state.index;
        state.advance(1, STAGES);
        stage = s + 1 < k_tiles ? state.index : last;
        if (s + 1 < k_tiles) pipeline.consumer_wait(state);
      }
      load_fragments((step + 1) % STEPS, stage);
      if (step == RELEASE && s > 0) release();
      if (EARLY && step + 1 == STEPS) __syncwarp();
      if (step + 2 == STEPS) previous_empty = pipeline.empty_barrier(state.index);
      // Serpentine order: B's element stays in the operand reuse cache along a column, A's at each turn.
#pragma unroll
      for (int j = 0; j < 16; ++j) {
#pragma unroll
        for (int step_m = 0; step_m < 8; ++step_m) {
          const int i = j % 2 ? step_m : 7 - step_m;
          sums[i][j] += a_fragments[step % 2][i / 4].at[i % 4] * b_fragments[step % 2][j / 4].at[j % 4];
        }
      }
    }
  }
  release();
}

}  // namespace warpwise
