// The products of k04 by mma.sync: scores and moments, as three of the four products of TF32 pairs.
#pragma once

#include <warpwise/sm80/tf32.cuh>

#include "fragment_plan.cuh"

// Sum i of a tile belongs to point 2 index + i % 2 and row group + i / 2 * 8. Index t of the inner dimension is feature
// 2 t of a step, index t + 4 is feature 2 t + 1. x: the row of point `group`, at feature 2 index.
template <class Plan>
__device__ inline void add_scores(float (&scores)[Plan::TILES][4], const float* x, const float* coefficients) {
#pragma unroll
  for (int s = 0; s < Plan::STEPS; ++s) {
    const auto pair = *reinterpret_cast<const warpwise::Vector<float, 2>*>(x + 8 * s);
    const unsigned b0 = __float_as_uint(pair.at[0]), b1 = __float_as_uint(pair.at[1]);
    const unsigned rest0 = warpwise::rest_of_tf32(pair.at[0]), rest1 = warpwise::rest_of_tf32(pair.at[1]);
    unsigned large[Plan::TILES][4];
#pragma unroll
    for (int m = 0; m < Plan::TILES; ++m) {
      const auto c = *reinterpret_cast<const warpwise::Float4*>(coefficients + (s * Plan::TILES + m) * 128);
      unsigned small[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        large[m][i] = __float_as_uint(c.at[i]);
        small[i] = warpwise::rest_of_tf32(c.at[i]);
      }
      warpwise::mma::mma_sync(scores[m], small, b0, b1, 0.0f);
    }
#pragma unroll
    for (int m = 0; m < Plan::TILES; ++m) warpwise::mma::mma_sync(scores[m], large[m], rest0, rest1, 0.0f);
#pragma unroll
    for (int m = 0; m < Plan::TILES; ++m) warpwise::mma::mma_sync(scores[m], large[m], b0, b1, 0.0f);
  }
}

// The moments q^T x of a warp. Tensor cores round sums towards zero, so that only those of a tile are added there. A
// warp's own moments stay in shared memory, so that rows of q have the registers; those of a block in registers.
template <class Plan>
struct FragmentMoments {
  static constexpr int MI = Plan::MI, NI = Plan::NI;
  float sums[MI][NI][4] = {};
  int first_m, first_n;
  float* to;  // [tile][lane][4]

  __device__ FragmentMoments(const FragmentMemory<Plan>& memory, int warp, int lane)
      : first_m(Plan::kOwn ? 0 : warp % Plan::kWarpsM * MI),
        first_n(Plan::kOwn ? 0 : warp / Plan::kWarpsM % Plan::kWarpsN * NI),
        to(memory.sums_of_parts + warp / Plan::kSharing * Plan::kMoments * 32 + 4 * lane) {}

  // Calls use(sums in shared memory, m, n) for COUNT steps of the tiles of the warp.
  template <int FROM, int COUNT, class Use>
  __device__ void for_tiles(const Use& use) const {
#pragma unroll
    for (int m = 0; m < MI; ++m) {
#pragma unroll
      for (int n = FROM; n < FROM + COUNT; ++n) {
        if (first_m + m >= Plan::TILES || first_n + n >= Plan::STEPS) continue;
        use(*reinterpret_cast<warpwise::Float4*>(to + ((first_m + m) * Plan::STEPS + first_n + n) * 128), m, n);
      }
    }
  }

  // The moments of a block, to memory that nothing else uses any more.
  __device__ void finish() const {
    if (Plan::kOwn) return;
    for_tiles<0, NI>(
        [&](warpwise::Float4& at, int m, int n) { at = {sums[m][n][0], sums[m][n][1], sums[m][n][2], sums[m][n][3]}; });
  }

  // Features FROM to FROM + COUNT of eight points. x: (8, kStride), at feature `group`; q_of(m): the fragment of tile
  // first_m + m.
  template <int FROM, int COUNT, class Fragment>
  __device__ void add_points(float (&total)[MI][COUNT][4], const float* x, int index, const Fragment& q_of) const {
    unsigned large_x[COUNT][2], small_x[COUNT][2];
#pragma unroll
    for (int n = 0; n < COUNT; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int step = Plan::kOwn ? FROM + n : min(first_n + FROM + n, Plan::STEPS - 1);  // past the last: not used
        const float value = x[(2 * index + i) * Plan::kStride + 8 * step];
        large_x[n][i] = __float_as_uint(value);
        small_x[n][i] = warpwise::rest_of_tf32(value);
      }
    }
#pragma unroll
    for (int m = 0; m < MI; ++m) {
      const warpwise::Float4 a = q_of(m);
      unsigned large[4], small[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        large[i] = __float_as_uint(a.at[i]);
        small[i] = warpwise::rest_of_tf32(a.at[i]);
      }
#pragma unroll
      for (int product = 0; product < 3; ++product) {  // adjacent instructions add to different sums
#pragma unroll
        for (int n = 0; n < COUNT; ++n) {
          const unsigned* const b = product == 1 ? small_x[n] : large_x[n];
          warpwise::mma::mma_sync(total[m][n], product == 0 ? small : large, b[0], b[1], 0.0f);
        }
      }
    }
  }

  // The warp's own points, whose q is in `q`: index t of the inner dimension is point 2 t, t + 4 is point 2 t + 1.
  // kChunk steps at a time, so that the sums of a tile take fewer registers.
  template <int FROM = 0>
  __device__ void add_own(const float* x, int index, const float (&q)[Plan::TILES][4]) {
    constexpr int kCount = NI - FROM < Plan::kChunk ? NI - FROM : Plan::kChunk;
    float local[MI][kCount][4] = {};
    add_points<FROM, kCount>(local, x, index,
                             [&](int m) -> warpwise::Float4 { return {q[m][0], q[m][2], q[m][1], q[m][3]}; });
    for_tiles<FROM, kCount>([&](warpwise::Float4& at, int m, int n) {
      warpwise::Float4 total = at;
#pragma unroll
      for (int i = 0; i < 4; ++i) total.at[i] += local[m][n - FROM][i];
      at = total;
    });
    if constexpr (FROM + kCount < NI) add_own<FROM + kCount>(x, index, q);
  }

  // The points of the warps that share moments. q_tiles: [tile][warp][lane][4], at this lane.
  template <int FROM = 0>
  __device__ void add_shared(const float* x, int index, const float* q_tiles, int warp) {
    constexpr int kCount = NI - FROM < Plan::kChunk ? NI - FROM : Plan::kChunk;
    float local[MI][kCount][4] = {};
#pragma unroll 1
    for (int part = 0; part < Plan::kSharing; ++part) {
      const int of = warp / Plan::kSharing * Plan::kSharing + part;
      add_points<FROM, kCount>(local, x + of * Plan::kPoints * Plan::kStride, index, [&](int m) {
        const int tile = min(first_m + m, Plan::TILES - 1);
        return *reinterpret_cast<const warpwise::Float4*>(q_tiles + (tile * Plan::kWarps + of) * 128);
      });
    }
#pragma unroll
    for (int m = 0; m < MI; ++m) {
#pragma unroll
      for (int n = 0; n < kCount; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[m][FROM + n][i] += local[m][n][i];
      }
    }
    if constexpr (FROM + kCount < NI) add_shared<FROM + kCount>(x, index, q_tiles, warp);
  }
};
