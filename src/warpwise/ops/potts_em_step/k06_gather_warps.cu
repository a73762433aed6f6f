// Warps that only gather, beside warps that only update.
//
// In k04 a warp gathers rows of q, multiplies, and computes a softmax in turn, so that with the registers of rows in
// flight eight to sixteen warps fit on an SM, and each waits most of the time. Here WARPS / SERVED of a block's warps
// load the rows of all neighbours, and store their sums in shared memory, STAGES tiles ahead. WARPS others multiply,
// update and add moments, in the fragments of k04. Between two colours a block arrives at the grid's barrier when its
// last q is stored, and computes moments, and scores of its next tile, before it waits.

#include <cooperative_groups.h>

#include "colour_order.cuh"
#include "fragment_gather.cuh"
#include "fragment_totals.cuh"

// The arguments and partials are those of potts_em_step_in_fragments (k04). Cooperative grid: (blocks, restarts) of
// 32 * (WARPS + WARPS / SERVED). Shared: see gather_tile_of in tiles.py.
template <int WARPS, int SERVED, int TILES, int STEPS, int WARPS_N, int STAGES, int LANES, int LOADS, int VEC,
          bool FIELDS, bool WEIGHTED>
__global__ void __launch_bounds__(32 * (WARPS + WARPS / SERVED), 1) potts_em_step_gather_warps(
    float* q, const float* features, const float* linear, const float* constant, const int* rowptr, const int* columns,
    const float* weights, const float* beta, const float* external, float* partials, float* sums, float* counts,
    float* derivatives, float* near, Colours colours, int restarts, int domains, int width, long long external_row,
    long long external_restart, float temper) {
  namespace sm90 = warpwise::sm90;
  extern __shared__ __align__(16) float shared[];
  using Plan = GatherPlan<WARPS, SERVED, TILES, STEPS, WARPS_N, STAGES>;
  using Lane = LaneDomains<TILES, VEC>;
  constexpr int kTogether = TILES <= (Plan::kOwn ? 4 : 3) ? 2 : 1;  // points of a lane in one update
  const int restart = blockIdx.y, row = restarts * domains;
  const int warp = __shfl_sync(kAllLanes, threadIdx.x / 32, 0), lane = threadIdx.x % 32, group = lane / 4,
            index = lane % 4;
  const unsigned full = warpwise::shared_address(shared), empty = full + 8 * WARPS * STAGES;
  int* const none = reinterpret_cast<int*>(shared) + 2 * Plan::kBarriers;
  float* const near_tiles = shared + Plan::kFirstFloats;  // [warp][stage][point][kNear]
  const FragmentMemory<Plan> memory(near_tiles + Plan::kNearFloats);
  ColourOrder order = {colours, Plan::kTile};
  TilePlace present = order.first();
  float* const own_sums = partials + (static_cast<long long>(blockIdx.x) * restarts + restart) * 32 * Plan::kSlots;
  static_assert(32 * Plan::kSlots >= Plan::kHeld, "until the end the first of a block's sums are a row of zeros");
  if (threadIdx.x < Plan::kThreads) {
    memory.template fill<Lane>(linear + static_cast<long long>(restart) * domains * width, constant + restart * domains,
                               FIELDS ? nullptr : external + restart * external_restart, domains, width,
                               kLog2E * temper);
    for (int i = threadIdx.x; i < Plan::kNearFloats; i += Plan::kThreads) near_tiles[i] = 0.0f;
    for (int k = threadIdx.x; k < Plan::kHeld; k += Plan::kThreads) own_sums[k] = 0.0f;
    for (int i = 0; threadIdx.x == 0 && i < Plan::kBarriers; ++i) sm90::mbarrier_init(full + 8 * i, 1);
    if (threadIdx.x < Plan::kEdges) none[threadIdx.x] = -1;
  }
  __syncthreads();

  if (warp >= WARPS) {
    using Rows = GatherRows<Plan, VEC, LANES, LOADS, WEIGHTED>;
    const Rows rows(q + restart * domains, own_sums, row, domains, columns, weights);
    gather_tiles<Plan, Rows>(rows, order, memory, near_tiles, full, empty, none, rowptr);
    cooperative_groups::this_grid().sync();
  } else {
    const int own = warp * Plan::kPoints;
    warpwise::WarpCopy<Plan::kPoints> copy(features, width);
    copy.stride = Plan::kStride;
    const auto copy_features = [&](int side, const TilePlace& of) {
      copy(memory.tiles + (side * Plan::kTile + own) * Plan::kStride, of.first + own, of.end);
      __pipeline_commit();
    };
    FragmentMoments<Plan> moments(memory, warp, lane);
    FragmentUpdate<Plan, Lane, FIELDS> update = {memory, group, domains, kLog2E * beta[restart]};
    copy_features(0, present);
    for (int t = 0; present.colour >= 0; ++t) {
      const int side = t % 2, of = warp * STAGES + t % STAGES, first = present.first + own, end = present.end;
      const TilePlace following = order.next(present);
      __pipeline_wait_prior(0);
      __syncwarp();
      if (Plan::kOwn) copy_features(side ^ 1, following);
      const float* const x_tile = memory.tiles + side * Plan::kTile * Plan::kStride;
      float scores[TILES][4] = {};
      add_scores<Plan>(scores, x_tile + (own + group) * Plan::kStride + 2 * index, memory.coefficients + 4 * lane);
      order.wait(present.colour);
      sm90::mbarrier_wait(full + 8 * of, t / STAGES % 2);
#pragma unroll
      for (int j = 0; j < 2; j += kTogether) {
        float around[kTogether][TILES][2];
        const float* fields[kTogether];
        bool inside[kTogether];
#pragma unroll
        for (int p = 0; p < kTogether; ++p) {
          const int place = 2 * index + j + p, point = first + place;
          Lane::load_shared(around[p], near_tiles + of * Plan::kStage + place * Plan::kNear, group);
          fields[p] = external + min(point, end - 1) * external_row + restart * external_restart;
          inside[p] = point < end;
          float* const to = near + static_cast<long long>(point - colours.ends[0]) * row + restart * domains;
          if (near && inside[p]) Lane::store(to, around[p], group, domains);
        }
        update(scores, j, around, fields, inside, derivatives != nullptr);
#pragma unroll
        for (int p = 0; p < kTogether; ++p) {
          float* const to = q + static_cast<long long>(first + 2 * index + j + p) * row + restart * domains;
          if (inside[p]) Lane::store(to, around[p], group, domains);
        }
      }
      __syncwarp();
      if (lane == 0) sm90::mbarrier_arrive(empty + 8 * of);
      if (following.colour != present.colour) order.arrive(following);

      if (Plan::kOwn) {
        moments.add_own(x_tile + own * Plan::kStride + group, index, scores);
        __syncwarp();
      } else {
        float* const q_tiles = memory.q_tiles + side * TILES * WARPS * 128 + 4 * lane;
#pragma unroll
        for (int m = 0; m < TILES; ++m) {
          *reinterpret_cast<float4*>(q_tiles + (m * WARPS + warp) * 128) =
              make_float4(scores[m][0], scores[m][2], scores[m][1], scores[m][3]);
        }
        Plan::sync();  // all warps have also read the other tiles
        copy_features(side ^ 1, following);
        moments.add_shared(x_tile + group, index, q_tiles, warp);
      }
      present = following;
    }
    __pipeline_wait_prior(0);
    order.wait(colours.count - 1);
    Plan::sync();
    moments.finish();
    store_partials<Plan>(own_sums, memory, update);
    cooperative_groups::this_grid().sync();
    add_partials<Plan, 1, Lane>(near_tiles, partials, sums, counts, derivatives, restarts, domains, width);
  }
}
