// Warps that add the rows of q of a tile's neighbours while others update the points of the tiles before.
#pragma once

#include <warpwise/core/numeric.cuh>
#include <warpwise/sm80/copy_rows.cuh>
#include <warpwise/sm90/mbarrier.cuh>
#include <warpwise/sm90/warpgroup.cuh>

#include "colour_order.cuh"
#include "fragment_plan.cuh"

constexpr int kUpdating = 1;  // the named barrier of the updating warps

// The updating warps come first, and warp WARPS + w gathers for warp w.
template <int WARPS, int TILES, int STEPS, int WARPS_N, int STAGES>
struct GatherPlan : FragmentPlan<WARPS, TILES, STEPS, WARPS_N> {
  using Fragments = FragmentPlan<WARPS, TILES, STEPS, WARPS_N>;
  static constexpr int kMost = Fragments::MI > 2 ? 2 : 4, kChunk = Fragments::NI < kMost ? Fragments::NI : kMost;
  static constexpr int kNear = Fragments::kHeld + 4;  // lanes of a fragment read different banks
  static constexpr int kStages = STAGES, kStage = Fragments::kPoints * kNear;
  static constexpr int kNearFloats = WARPS * kStages * kStage, kBarrierFloats = (4 * WARPS * kStages + 3) / 4 * 4;

  static __device__ void sync() { warpwise::sm90::named_barrier_sync(kUpdating, Fragments::kThreads); }
};

// The edges of a warp's tiles in shared memory, [side][warp][point][kEdges], -1 past the last. Row pointers are loaded
// two tiles ahead, columns are copied one tile ahead.
template <class Plan>
struct GatherEdges {
  int* to;  // of the warp's points, side 0
  const int *rowptr, *columns;
  int own, start = 0, stop = 0;  // the warp's first point in a tile; the edges of point `lane`

  __device__ void load_rows(int first, int end) {
    const int from = first + own, lane = threadIdx.x % 32;
    start = stop = 0;
    if (from < end && lane < Plan::kPoints) {
      start = rowptr[min(from + lane, end)];
      stop = rowptr[min(from + lane + 1, end)];
    }
  }

  __device__ void copy(int side) const {
#pragma unroll
    for (int i = threadIdx.x % 32; i < Plan::kPoints * Plan::kEdges; i += 32) {
      const int edge = __shfl_sync(kAllLanes, start, i / Plan::kEdges) + i % Plan::kEdges;
      int* const at = to + side * Plan::kTile * Plan::kEdges + i;
      if (edge < __shfl_sync(kAllLanes, stop, i / Plan::kEdges)) {
        warpwise::mma::cp_async<4>(warpwise::shared_address(at), columns + edge, true);
      } else {
        *at = -1;
      }
    }
  }
};

// Sums of rows of q, for a tile of kPoints points: item i is vector i % vectors of point i / vectors, and belongs to
// lane i % 32, so that adjacent lanes load adjacent vectors of VEC domains. A lane loads the eight rows of ITEMS items
// before it adds the first.
template <class Plan, int VEC, int ITEMS>
struct GatherRows {
  using Values = warpwise::Vector<float, VEC>;
  const char *rows, *zeros;  // row 0 of q, and a row of zeros
  unsigned row_bytes;
  int vectors, first_point, first_vector, step_points, step_vectors;

  __device__ GatherRows(const float* q, const float* zero_row, int row, int domains)
      : rows(reinterpret_cast<const char*>(q)),
        zeros(reinterpret_cast<const char*>(zero_row)),
        row_bytes(4 * row),
        vectors(domains / VEC) {
    const int lane = threadIdx.x % 32;
    first_point = lane / vectors;
    first_vector = lane - first_point * vectors;
    step_points = 32 / vectors;
    step_vectors = 32 - step_points * vectors;
  }

  // near: (kPoints, kNear). start, degree: the edges of point `lane`. PLAIN: each point has kEdges edges of weight 1.
  template <bool PLAIN>
  __device__ void add(float* near, const int* edges, int start, int degree, const int* columns,
                      const float* weights) const {
    constexpr int kItems = PLAIN ? ITEMS : 1, kEdges = Plan::kEdges;
    int point = first_point, vector = first_vector;
    for (int begin = 0; begin < Plan::kPoints * vectors; begin += 32 * kItems) {
      Values values[kItems][kEdges];
      int points[kItems], offsets[kItems];
      bool valid[kItems];
#pragma unroll
      for (int n = 0; n < kItems; ++n) {
        valid[n] = point < Plan::kPoints;
        points[n] = valid[n] ? point : Plan::kPoints - 1;  // lanes past the last item load its rows too
        offsets[n] = VEC * (valid[n] ? vector : vectors - 1);
        vector += step_vectors;
        point += step_points;
        if (vector >= vectors) {
          vector -= vectors;
          ++point;
        }
        const int4* const at = reinterpret_cast<const int4*>(edges + points[n] * kEdges);
        const int4 low = at[0], high = at[1];
        const int of[kEdges] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        const char* const from = rows + 4 * offsets[n];
#pragma unroll
        for (int e = 0; e < kEdges; ++e) {
          const char* row = row_at(from, of[e], row_bytes);
          if (!PLAIN && of[e] < 0) row = zeros + 4 * offsets[n];
          values[n][e] = *reinterpret_cast<const Values*>(row);
        }
      }
#pragma unroll
      for (int n = 0; n < kItems; ++n) {
        Values sum = {};
        const int first = PLAIN ? 0 : __shfl_sync(kAllLanes, start, points[n]);
        const int count = PLAIN ? 0 : __shfl_sync(kAllLanes, degree, points[n]);
#pragma unroll
        for (int e = 0; e < kEdges; ++e) {
          const float weight = !PLAIN && weights && e < count ? weights[first + e] : 1.0f;
#pragma unroll
          for (int i = 0; i < VEC; ++i) sum.at[i] += PLAIN ? values[n][e].at[i] : weight * values[n][e].at[i];
        }
        for (int e = kEdges; !PLAIN && e < count; ++e) {
          const auto more =
              *reinterpret_cast<const Values*>(row_at(rows + 4 * offsets[n], columns[first + e], row_bytes));
          const float weight = weights ? weights[first + e] : 1.0f;
#pragma unroll
          for (int i = 0; i < VEC; ++i) sum.at[i] += weight * more.at[i];
        }
        if (valid[n]) *reinterpret_cast<Values*>(near + points[n] * Plan::kNear + offsets[n]) = sum;
      }
    }
  }
};

// The tiles of a gathering warp, in the order of the warp that updates them. near_tiles: [warp][stage][point][kNear].
// Barrier `full` of stage s of warp w is at full + 8 * (w * kStages + s), likewise `empty`.
template <class Plan, int VEC, int ITEMS>
__device__ inline void gather_tiles(const GatherRows<Plan, VEC, ITEMS>& rows, ColourOrder& order,
                                    const FragmentMemory<Plan>& memory, float* near_tiles, unsigned full,
                                    unsigned empty, const int* rowptr, const int* columns, const float* weights) {
  const int warp = threadIdx.x / 32 - Plan::kWarps, lane = threadIdx.x % 32, own = warp * Plan::kPoints;
  TilePlace present = order.first(), following = order.next(present);
  GatherEdges<Plan> edges = {memory.edges + own * Plan::kEdges, rowptr, columns, own};
  edges.load_rows(present.first, present.end);
  edges.copy(0);
  __pipeline_commit();
  int start = edges.start, degree = edges.stop - start;  // of the present tile
  edges.load_rows(following.first, following.end);
  for (int t = 0; present.colour >= 0; ++t) {
    const TilePlace after = order.next(following);
    const int side = t % 2, of = warp * Plan::kStages + t % Plan::kStages;
    order.wait(present.colour);
    edges.copy(side ^ 1);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncwarp();
    const int* const copied = edges.to + side * Plan::kTile * Plan::kEdges;
    const bool plain = !weights && __all_sync(kAllLanes, lane >= Plan::kPoints || degree == Plan::kEdges);
    const int first = start, count = degree;
    start = edges.start;
    degree = edges.stop - start;
    edges.load_rows(after.first, after.end);
    warpwise::sm90::mbarrier_wait(empty + 8 * of, t / Plan::kStages % 2 ^ 1);
    float* const near = near_tiles + of * Plan::kStage;
    if (plain) {
      rows.template add<true>(near, copied, first, count, columns, weights);
    } else {
      rows.template add<false>(near, copied, first, count, columns, weights);
    }
    __syncwarp();
    if (lane == 0) warpwise::sm90::mbarrier_arrive(full + 8 * of);
    order.arrive(following);
    present = following;
    following = after;
  }
  __pipeline_wait_prior(0);
  order.wait(order.colours.count - 1);
}
