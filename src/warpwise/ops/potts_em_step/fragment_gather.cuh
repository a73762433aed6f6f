// Warps that add the rows of q of a tile's neighbours while others update the points of the tiles before.
//
// LANES adjacent lanes have a point, and load adjacent vectors of VEC domains, LOADS of a lane in each row: one address
// serves LOADS loads. A warp has the rows of 32 / LANES points in flight, and loads those of the next points as soon as
// it has added the present ones, also from tile to tile of a colour.
#pragma once

#include <warpwise/core/numeric.cuh>
#include <warpwise/sm80/copy_rows.cuh>
#include <warpwise/sm90/mbarrier.cuh>
#include <warpwise/sm90/warpgroup.cuh>

#include "colour_order.cuh"
#include "fragment_plan.cuh"

constexpr int kUpdating = 1;  // the named barrier of the updating warps

// The updating warps come first; warp WARPS + w gathers for warps w, w + WARPS / SERVED, ..., in turn.
template <int WARPS, int SERVED, int TILES, int STEPS, int WARPS_N, int STAGES>
struct GatherPlan : FragmentPlan<WARPS, TILES, STEPS, WARPS_N> {
  using Fragments = FragmentPlan<WARPS, TILES, STEPS, WARPS_N>;
  // Without spills; 12 warps have 168 registers, 16 have 128.
  static constexpr int kMost = Fragments::MI <= 2 ? 4 : Fragments::MI == 3 && SERVED > 1 ? 3 : 2;
  static constexpr int kChunk = Fragments::NI < kMost ? Fragments::NI : kMost;
  static constexpr int kServed = SERVED, kGathering = WARPS / SERVED;
  static constexpr int kNear = Fragments::kHeld + 4;  // lanes of a fragment read different banks
  static constexpr int kStages = STAGES, kStage = Fragments::kPoints * kNear;
  static constexpr int kNearFloats = WARPS * kStages * kStage;
  static constexpr int kBarriers = 2 * WARPS * kStages;                   // of 8 bytes
  static constexpr int kFirstFloats = 2 * kBarriers + Fragments::kEdges;  // and the edges of a point that has none

  static __device__ void sync() { warpwise::sm90::named_barrier_sync(kUpdating, Fragments::kThreads); }
};

// Rows of q in flight. Points of a warp are taken kTogether at a time.
template <class Plan, int VEC, int LANES, int LOADS, bool WEIGHTED>
struct GatherRows {
  static constexpr int kTogether = 32 / LANES, kBatches = Plan::kPoints / kTogether, kHalf = Plan::kEdges / 2;
  static constexpr int kStep = VEC * LANES;  // from a lane's vector to its next
  using Values = warpwise::Vector<float, VEC>;
  const char *rows, *zeros;  // the lane's first vector of row 0 of q, and of a row of zeros
  const int* columns;
  const float* weights;
  unsigned row_bytes;
  int point, first;  // of kTogether points; the lane's first domain
  bool last;         // whether the lane's last vector exists
  Values values[Plan::kEdges][LOADS];

  __device__ GatherRows(const float* q, const float* zero_row, int row, int domains, const int* at, const float* w)
      : columns(at), weights(w), row_bytes(4 * row) {
    const int lane = threadIdx.x % 32;
    point = lane / LANES;
    first = lane % LANES * VEC;
    last = first + (LOADS - 1) * kStep < domains;
    const int from = first < domains ? first : 0;
    rows = reinterpret_cast<const char*>(q + from);
    zeros = reinterpret_cast<const char*>(zero_row + from);
  }

  // Half of the rows of a point, whose edges are given; zeros for an edge of -1.
  __device__ void load(int half, const int* edges) {
    const int4 four = *reinterpret_cast<const int4*>(edges + half * kHalf);
    const int of[kHalf] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int e = 0; e < kHalf; ++e) {
      const char* const row = of[e] >= 0 ? row_at(rows, of[e], row_bytes) : zeros;
#pragma unroll
      for (int n = 0; n < LOADS; ++n) {
        const auto* const at = reinterpret_cast<const Values*>(row + 4 * kStep * n);
        if (n + 1 < LOADS || last) values[half * kHalf + e][n] = *at;
      }
    }
  }

  __device__ static void add(Values& sum, float weight, const Values& value) {
#pragma unroll
    for (int i = 0; i < VEC; ++i) sum.at[i] += WEIGHTED ? weight * value.at[i] : value.at[i];
  }

  // Adds the rows in flight, of point `place` of the tile, to a row of sums, and loads those of the point of edges
  // `next` meanwhile. Lane i has edges `starts` and their `degrees` of point i; `many`: of one of the points
  // more than kEdges.
  __device__ void step(float* to, int place, int starts, int degrees, bool many, const int* next) {
    Values sums[LOADS] = {};
    int start = 0, count = 0;
    if (WEIGHTED || many) {
      start = __shfl_sync(kAllLanes, starts, place);
      count = __shfl_sync(kAllLanes, degrees, place);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int e = half * kHalf; e < (half + 1) * kHalf; ++e) {
        const float weight = WEIGHTED && e < count ? weights[start + e] : 1.0f;
#pragma unroll
        for (int n = 0; n < LOADS; ++n) add(sums[n], weight, values[e][n]);
      }
      load(half, next);
    }
#pragma unroll 1
    for (int e = Plan::kEdges; many && e < count; ++e) {
      const char* const row = row_at(rows, columns[start + e], row_bytes);
      const float weight = WEIGHTED ? weights[start + e] : 1.0f;
#pragma unroll
      for (int n = 0; n < LOADS; ++n) {
        if (n + 1 < LOADS || last) add(sums[n], weight, *reinterpret_cast<const Values*>(row + 4 * kStep * n));
      }
    }
#pragma unroll
    for (int n = 0; n < LOADS; ++n) {
      if (n + 1 < LOADS || last) *reinterpret_cast<Values*>(to + first + kStep * n) = sums[n];
    }
  }
};

// The tiles of a gathering warp, in the order of the warps that update them. near_tiles: [warp][stage][point][kNear].
// Barrier `full` of stage s of warp w is at full + 8 * (w * kStages + s), likewise `empty`. none: kEdges of -1.
template <class Plan, class Rows>
__device__ inline void gather_tiles(Rows rows, ColourOrder& order, const FragmentMemory<Plan>& memory,
                                    float* near_tiles, unsigned full, unsigned empty, const int* none,
                                    const int* rowptr) {
  const int gatherer = threadIdx.x / 32 - Plan::kWarps, lane = threadIdx.x % 32;
  const auto warp_of = [&](int t) { return gatherer + t % Plan::kServed * Plan::kGathering; };  // of step t
  const auto edges_of = [&](int t) {
    return memory.edges + (t / Plan::kServed % 2 * Plan::kTile + warp_of(t) * Plan::kPoints) * Plan::kEdges;
  };
  const auto after = [&](int t, const TilePlace& place) { return (t + 1) % Plan::kServed ? place : order.next(place); };
  // In shared memory: [side][warp][point][kEdges]. Row pointers are loaded two tiles ahead, columns copied one ahead.
  TileEdges<Plan> edges = {rowptr, rows.columns};
  const auto load_rows = [&](int t, const TilePlace& place) {
    edges.load_rows(place.first + warp_of(t) * Plan::kPoints, place.end);
  };
  TilePlace present = order.first(), following = after(0, present);
  load_rows(0, present);
  edges.copy(edges_of(0));
  __pipeline_commit();
  int start = edges.start, degree = edges.stop - start;  // of the present tile
  load_rows(1, following);
  bool loaded = false;  // the first rows of the present tile
  for (int t = 0; present.colour >= 0; ++t) {
    const TilePlace third = after(t + 1, following);
    const int of = warp_of(t) * Plan::kStages + t / Plan::kServed % Plan::kStages;
    const int* const here = edges_of(t) + rows.point * Plan::kEdges;
    const bool going_on = following.colour == present.colour;
    const int* const then = going_on ? edges_of(t + 1) + rows.point * Plan::kEdges : none;
    if (!loaded) {
      order.wait(present.colour);
      __pipeline_wait_prior(0);
      __syncwarp();
      rows.load(0, here);
      rows.load(1, here);
    }
    loaded = going_on;
    edges.copy(edges_of(t + 1));
    __pipeline_commit();
    const int begin = start, count = degree;
    const bool many = __any_sync(kAllLanes, degree > Plan::kEdges);
    start = edges.start;
    degree = edges.stop - start;
    load_rows(t + 2, third);
    warpwise::sm90::mbarrier_wait(empty + 8 * of, t / Plan::kServed / Plan::kStages % 2 ^ 1);
    float* const near = near_tiles + of * Plan::kStage + rows.point * Plan::kNear;
#pragma unroll 1
    for (int b = 0; b < Rows::kBatches; ++b) {
      const bool ends = b + 1 == Rows::kBatches;
      const int* const next = ends ? then : here + (b + 1) * Rows::kTogether * Plan::kEdges;
      if (ends) {  // the copied edges of the next tile
        __pipeline_wait_prior(0);
        __syncwarp();
      }
      const int at = b * Rows::kTogether;
      rows.step(near + at * Plan::kNear, at + rows.point, begin, count, many, next);
    }
    __syncwarp();
    if (lane == 0) warpwise::sm90::mbarrier_arrive(full + 8 * of);
    if (!going_on) order.arrive(following);
    present = following;
    following = third;
  }
  __pipeline_wait_prior(0);
  order.wait(order.colours.count - 1);
}
