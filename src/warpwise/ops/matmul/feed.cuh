// What feeds warps that multiply: slices of a matrix product's operands in shared memory as [depth][extent], so that
// the neighbours along m or n that a thread multiplies lie together, whichever way the operand lies in global memory;
// the ring that slices go round, and the products of what lies in it; the order of tiles.
#pragma once

#include <cuda_pipeline.h>
#include <warpwise/core/float4.cuh>
#include <warpwise/sm90/mbarrier.cuh>

namespace warpwise {

// How an operand comes: boxes by the copy engine where memory runs along its extent and lines lie on 16 bytes, else
// words by cp.async, along the extent or along the depth, which transposes on the way.
enum Feed { kEngine, kAlongExtent, kAlongDepth };

// Eight depths x four of the extent, a warp's words, lie in distinct banks by the four words of padding.
constexpr int slice_pitch(Feed feed, int extent) { return feed == kAlongDepth ? extent + 4 : extent; }

struct Operand {
  const float* at;
  long long stride;   // between lines of memory
  int extent, depth;  // m of A or n of B, and k
};

// Copies a slice by one warp, asynchronously: EXTENT from `x` and DEPTH from `z` on. WHOLE: nothing of it lies past an
// edge. What does is zero: 0 * infinity must not come in from there.
template <Feed FEED, int EXTENT, int DEPTH, bool WHOLE>
__device__ inline void copy_slice_words(float* to, const Operand& from, int x, int z) {
  constexpr int kPitch = slice_pitch(FEED, EXTENT), kAtOnce = 8;  // of copies that are unrolled
  const int lane = threadIdx.x % 32;
  const auto copy = [&](float* into, const float* word, bool inside) {
    __pipeline_memcpy_async(into, WHOLE || inside ? word : from.at, 4, WHOLE || inside ? 0 : 4);
  };
  if (FEED == kAlongDepth) {
    static_assert(FEED != kAlongDepth || (EXTENT % 4 == 0 && DEPTH % 8 == 0), "whole rounds of 4 x 8 words");
    x += lane / 8;
    z += lane % 8;
    const float* word = from.at + x * from.stride + z;
    to += lane % 8 * kPitch + lane / 8;
#pragma unroll(DEPTH / 8 < kAtOnce ? kAtOnce * 8 / DEPTH : 1)
    for (int i = 0; i < EXTENT; i += 4, word += 4 * from.stride) {
#pragma unroll
      for (int j = 0; j < DEPTH; j += 8) copy(to + j * kPitch + i, word + j, x + i < from.extent && z + j < from.depth);
    }
  } else {
    static_assert(FEED == kAlongDepth || EXTENT % 32 == 0, "whole rounds of 32 words");
    x += lane;
    const float* word = from.at + z * from.stride + x;
    to += lane;
#pragma unroll(EXTENT / 32 < kAtOnce ? kAtOnce * 32 / EXTENT : 1)
    for (int j = 0; j < DEPTH; ++j, word += from.stride) {
#pragma unroll
      for (int i = 0; i < EXTENT; i += 32)
        copy(to + j * kPitch + i, word + i, x + i < from.extent && z + j < from.depth);
    }
  }
}

template <Feed FEED, int EXTENT, int DEPTH>
__device__ inline void copy_slice(float* to, const Operand& from, int x, int z) {
  if (x + EXTENT <= from.extent && z + DEPTH <= from.depth)
    copy_slice_words<FEED, EXTENT, DEPTH, true>(to, from, x, z);
  else
    copy_slice_words<FEED, EXTENT, DEPTH, false>(to, from, x, z);
}

struct PipelineState {  // in the ring, and the parity of its phase
  int index;
  unsigned phase;
  __device__ void advance(int places, int ring) {
    if ((index += places) >= ring) {
      index -= ring;
      phase ^= 1;
    }
  }
};

// The first row and column of a tile. Tiles go in groups of `group` rows of them, column by column inside: what is in
// flight shares L2.
__device__ inline int2 tile_at(int number, int rows, int columns, int group, int bm, int bn) {
  const int per_group = group * columns, first = number / per_group * group, in_group = min(group, rows - first);
  return {(first + number % per_group % in_group) * bm, number % per_group / in_group * bn};
}

// threadIdx.x, read anew: what the end of a tile computes from it must not wait in registers through the products.
__device__ inline int thread_again() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

// Adds to a thread's 8 x 16 sums the products of a tile's slices, which go round a ring of STAGES places of FLOATS; a
// warp multiplies STEPS of a slice's depths, and `releases` in one of its lanes. a_lane, b_lane: a thread's first quads
// in the first place, of which the next are NEXT_A and NEXT_B further. A step's two quads of A and four of B are
// fetched under the products of the step before. A place is given back once all that was fetched from it has been
// multiplied, at the end of its slice or, LATE, in the next one: where that stands decides how ptxas orders the
// products.
template <int STEPS, int FLOATS, int PITCH_A, int PITCH_B, int STAGES, int NEXT_A = 32, int NEXT_B = 16,
          bool LATE = false>
__device__ __forceinline__ void add_slices(float (&sums)[8][16], const float* a_lane, const float* b_lane, int slices,
                                           PipelineState& place, unsigned full, unsigned empty, bool releases) {
  Float4 a_quads[2][2], b_quads[2][4];
  const auto fetch = [&](int step) {
    const float* const a_now = a_lane + place.index * FLOATS + step * PITCH_A;
    const float* const b_now = b_lane + place.index * FLOATS + step * PITCH_B;
#pragma unroll
    for (int q = 0; q < 2; ++q) a_quads[step % 2][q] = *reinterpret_cast<const Float4*>(a_now + q * NEXT_A);
#pragma unroll
    for (int q = 0; q < 4; ++q) b_quads[step % 2][q] = *reinterpret_cast<const Float4*>(b_now + q * NEXT_B);
  };
  sm90::mbarrier_wait(full + 8 * place.index, place.phase);
  fetch(0);
  unsigned read = 0;
  for (int s = 0; s < slices; ++s) {
    if (!LATE) read = empty + 8 * place.index;
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      // After the last slice, the next one's fragment is whatever lies there, and nobody uses it.
      if (step + 1 == STEPS) {
        place.advance(1, STAGES);
        if (s + 1 < slices) sm90::mbarrier_wait(full + 8 * place.index, place.phase);
      }
      fetch((step + 1) % STEPS);
      if (LATE && step == 0 && s > 0 && releases) sm90::mbarrier_arrive(read, 0);
      if (LATE && step + 2 == STEPS) read = empty + 8 * place.index;
      // A column up, the next one down: B's element stays in the operand cache along a column, A's around each turn.
#pragma unroll
      for (int j = 0; j < 16; ++j) {
#pragma unroll
        for (int turn = 0; turn < 8; ++turn) {
          const int i = j % 2 ? turn : 7 - turn;
          sums[i][j] += a_quads[step % 2][i / 4].at[i % 4] * b_quads[step % 2][j / 4].at[j % 4];
        }
      }
    }
    if (!LATE && releases) sm90::mbarrier_arrive(read, 0);
  }
  if (LATE && releases) sm90::mbarrier_arrive(read, 0);
}

}  // namespace warpwise
