// A point for each lane, with q and features in bfloat16: for up to eight domains.
//
// k03 computes products of float32 from TF32 numbers, in 889 instructions of a warp for 32 points of 16 features and
// eight domains. Here ldmatrix loads both operands of a product as they are in memory: a feature and a rounded
// probability are exact, and a coefficient is two numbers of bfloat16, so that scores take two products and moments one
// for 16 points and 16 features. A row of q is one load of a lane, and no sum over domains needs another lane.

#include <cooperative_groups.h>

#include "colour_order.cuh"
#include "lane_totals.cuh"
#include "selection_products.cuh"
#include "warp_rows.cuh"

// The arguments are those of potts_em_step_selection_products (k07), with pitch a multiple of OWN, four or eight, q
// aligned to OWN elements, and partials (gridDim.x, restarts, kSlots, 32). FULL: all OWN elements of a row are
// stored. Either domains is OWN, or the rest of the row is zeros and FIELDS and NEAR are false. Cooperative grid:
// (blocks, restarts) of 32 * WARPS.
template <int WARPS, int BLOCKS, int VECTORS, int OWN, bool FULL, bool FIELDS, bool WEIGHTED, bool SLOPES, bool NEAR>
__global__ void __launch_bounds__(32 * WARPS, BLOCKS) potts_em_step_point_lanes(
    __nv_bfloat16* q, const __nv_bfloat16* features, const float* linear, const float* constant, const int* rowptr,
    const int* columns, const float* weights, const float* beta, const float* external, float* partials, float* sums,
    float* counts, float* derivatives, float* near, Colours colours, int restarts, int domains, int width, int words,
    int pitch, long long external_row, long long external_restart, float temper) {
  extern __shared__ __align__(16) float shared[];
  using Plan = LanePlan<WARPS, VECTORS>;
  using Row = RowOf<__nv_bfloat16, OWN>;
  const int restart = blockIdx.y, row = restarts * pitch;
  const int warp = __shfl_sync(kAllLanes, threadIdx.x / 32, 0), lane = threadIdx.x % 32, index = lane % 4;
  const LaneMemory<Plan> memory(shared);
  TileCopy<Plan, LaneMemory<Plan>> copy(memory, features, words, rowptr, columns);
  ColourOrder order = {colours, Plan::kPoints};
  order.share(warp, WARPS);
  TilePlace present = order.first();
  copy.load_rows(present.first, present.end);
  memory.fill(linear + static_cast<long long>(restart) * domains * width, constant + restart * domains,
              FIELDS ? nullptr : external + restart * external_restart, domains, width, kLog2E * temper);
  __syncthreads();

  q += restart * pitch;
  const char* const rows = held(reinterpret_cast<const char*>(q));
  const float strength = kLog2E * beta[restart];
  const int own = warp * Plan::kPoints;
  float* const scores = memory.scores + own * 8;  // [point][eight domains], then q in bfloat16
  LaneMoments<Plan> moments;
  float gradient = 0.0f, curvature = 0.0f, fields[OWN];
#pragma unroll
  for (int i = 0; i < OWN; ++i) fields[i] = memory.fields[i];
  int side = 0;
  copy.copy(0, 0, present.first, present.end);

  while (present.colour >= 0) {
    const int point = present.first + lane, start = copy.edges.start, degree = copy.edges.stop - start;
    const bool inside = point < present.end;
    const TilePlace following = order.next(present);
    copy.load_rows(following.first, following.end);
    __pipeline_wait_prior(0);
    __syncwarp();
    const float* const x = memory.tiles + (side * Plan::kTile + own) * Plan::kStride;
    find_lane_scores<Plan>(scores, x, memory, index);
    order.wait(present.colour);

    // Lanes 4 to 7 of eight read their second four edges first, so that eight lanes read all banks.
    const int swap = lane / 4 % 2;
    const int* const edges = memory.edges + (side * Plan::kTile + own + lane) * Plan::kEdges;
    const int4 four[2] = {*reinterpret_cast<const int4*>(edges + 4 * swap),
                          *reinterpret_cast<const int4*>(edges + 4 - 4 * swap)};
    const auto load = [&](int at) {
      const size_t offset = static_cast<size_t>(static_cast<unsigned>(at)) * (2u * row);
      return Row::template load<true>(reinterpret_cast<const __nv_bfloat16*>(rows + offset), OWN);
    };
    Row loaded[Plan::kEdges];
#pragma unroll
    for (int e = 0; e < Plan::kEdges; ++e) loaded[e] = load((&four[e / 4].x)[e % 4]);
    copy.copy(side ^ 1, side ^ 1, following.first, following.end);
    float around[OWN] = {};
    const auto add = [&](int e, bool exists, int at) {  // row e; edge `at` of all
      const float weight = !exists ? 0.0f : WEIGHTED ? weights[at] : 1.0f;
#pragma unroll
      for (int i = 0; i < OWN; ++i) around[i] = __fmaf_rn(weight, loaded[e][i], around[i]);
    };
    if (!WEIGHTED && __all_sync(kAllLanes, degree == Plan::kEdges)) {
#pragma unroll
      for (int e = 0; e < Plan::kEdges; ++e) add(e, true, 0);
    } else {
#pragma unroll
      for (int e = 0; e < Plan::kEdges; ++e) {
        const int edge = e ^ (4 * swap);
        add(e, edge < degree, start + edge);
      }
      const int most = __reduce_max_sync(kAllLanes, degree);
#pragma unroll 1
      for (int first = Plan::kEdges; first < most; first += Plan::kEdges) {
#pragma unroll
        for (int e = 0; e < Plan::kEdges; ++e) {
          loaded[e] = load(first + e < degree ? columns[start + first + e] : min(point, present.end - 1));
        }
#pragma unroll
        for (int e = 0; e < Plan::kEdges; ++e) add(e, first + e < degree, start + first + e);
      }
    }
    const auto exists = [&](int i) { return FULL || i < domains; };
    const float* const field = external + min(point, present.end - 1) * external_row + restart * external_restart;
    float logits[OWN], highest = warpwise::minus_infinity(), total = 0.0f;
#pragma unroll
    for (int i = 0; i < OWN; i += 4) {
      const auto scored = *reinterpret_cast<const warpwise::Float4*>(scores + Plan::score_at(lane, i));
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (FIELDS) fields[i + e] = exists(i + e) ? kLog2E * field[i + e] : warpwise::minus_infinity();
        if (!exists(i + e)) around[i + e] = 0.0f;  // the padding of rows
        logits[i + e] = scored.at[e] + __fmaf_rn(strength, around[i + e], fields[i + e]);
        highest = fmaxf(highest, logits[i + e]);
      }
    }
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
      logits[i] = exp2_ftz(logits[i] - highest);
      total += logits[i];
    }
    const float scale = inside ? reciprocal(total) : 0.0f;
#pragma unroll
    for (int i = 0; i < OWN; ++i) logits[i] *= scale;  // the posterior, or zeros
    __syncwarp();  // the scores have been read, and rows of these points, in place of edges that do not exist
    store_own<true>(q + static_cast<long long>(point) * row, logits, !inside ? 0 : FULL ? OWN : domains);
    store_rounded(scores, logits, lane);
    const bool ends = following.colour != present.colour;
    if (ends) order.arrive(following);

    if (NEAR && inside) {
      float* const to = near + (static_cast<long long>(point - colours.ends[0]) * restarts + restart) * domains;
#pragma unroll
      for (int i = 0; i < OWN; ++i) {
        if (exists(i)) to[i] = around[i];
      }
    }
    if (SLOPES) add_slopes(gradient, curvature, logits, around, fields, strength, inside);
    __syncwarp();  // q of all lanes is in shared memory
    moments.add(x, scores, lane);
    __syncwarp();
    side ^= 1;
    present = following;
  }
  __pipeline_wait_prior(0);
  order.wait(colours.count - 1);
  __syncthreads();
  store_lane_partials<Plan>(partials + (static_cast<long long>(blockIdx.x) * restarts + restart) * 32 * Plan::kSlots,
                            memory, moments, gradient, curvature);
  cooperative_groups::this_grid().sync();
  add_lane_partials<Plan, BLOCKS>(shared, partials, sums, counts, derivatives, restarts, domains, width);
}
