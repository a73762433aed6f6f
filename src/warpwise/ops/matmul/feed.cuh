// What feeds warps that multiply: slices of a matrix product's operands in shared memory as [depth][extent], so that
// the neighbours along m or n that a thread multiplies lie together, whichever way the operand lies in global memory;
// the ring that slices go round; the order of tiles.
#pragma once

#include <cuda_pipeline.h>

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

struct Place {  // in the ring, and the parity of its phase
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

}  // namespace warpwise
