// All of a point in the fragments of one warp, for many domains and features.
//
// k03 has up to eight domains. Here mma.sync multiplies (domains, width) coefficients with (width, points) features of
// a warp's eight points: lane 4 g + t has points 2 t and 2 t + 1, and the domains of rows g and g + 8 of each tile
// of 16. It loads rows of q of the neighbours of its own two points, with eight lanes at adjacent domains, so that one
// address serves all domains of a lane. Sums, softmax and derivatives stay in these registers. So does q, which is the
// operand A of the moments q^T x. If a warp can hold the moments of all domains and features, it adds its own points;
// else a block shares q, and each warp has some of the moments. All products add three of the four products of TF32
// pairs, which keeps float32's accuracy.

#include <cooperative_groups.h>

#include "colour_order.cuh"
#include "fragment_neighbours.cuh"
#include "fragment_totals.cuh"

// The arguments are those of potts_em_step_one_launch (k03), except partials: (gridDim.x, restarts, kSlots, 32). TILES
// * 16 is at least domains, STEPS * 8 at least width. VEC divides domains, and q, external and near are aligned to VEC
// floats. A lane loads FLIGHT rows of q before it adds the first. FIELDS: external_row is not 0. Cooperative grid:
// (blocks, restarts) of 32 * WARPS.
template <int WARPS, int BLOCKS, int TILES, int STEPS, int WARPS_N, int FLIGHT, int VEC, bool FIELDS>
__global__ void __launch_bounds__(32 * WARPS, BLOCKS) potts_em_step_in_fragments(
    float* q, const float* features, const float* linear, const float* constant, const int* rowptr, const int* columns,
    const float* weights, const float* beta, const float* external, float* partials, float* sums, float* counts,
    float* derivatives, float* near, Colours colours, int restarts, int domains, int width, long long external_row,
    long long external_restart, float temper) {
  extern __shared__ __align__(16) float shared[];
  using Plan = FragmentPlan<WARPS, TILES, STEPS, WARPS_N>;
  using Lane = LaneDomains<TILES, VEC>;
  const int restart = blockIdx.y, row = restarts * domains;
  const int warp = __shfl_sync(kAllLanes, threadIdx.x / 32, 0), lane = threadIdx.x % 32, group = lane / 4,
            index = lane % 4;
  const FragmentMemory<Plan> memory(shared);
  FragmentCopy<Plan> copy(memory, features, width, rowptr, columns);
  ColourOrder order = {colours, Plan::kTile};
  TilePlace present = order.first();
  copy.load_rows(present.first, present.end);
  memory.template fill<Lane>(linear + static_cast<long long>(restart) * domains * width, constant + restart * domains,
                             FIELDS ? nullptr : external + restart * external_restart, domains, width, kLog2E * temper);
  float* const own_sums = partials + (static_cast<long long>(blockIdx.x) * restarts + restart) * 32 * Plan::kSlots;
  static_assert(32 * Plan::kSlots >= Plan::kHeld, "until the end the first of a block's sums are a row of zeros");
  for (int k = threadIdx.x; k < Plan::kHeld; k += Plan::kThreads) own_sums[k] = 0.0f;
  __syncthreads();

  const Lane rows(q + restart * domains, own_sums, row, group, domains);
  FragmentMoments<Plan> moments(memory, warp, lane);
  FragmentUpdate<Plan, Lane, FIELDS> update = {memory, group, domains, kLog2E * beta[restart]};
  int side = 0;  // of the buffers of the present tile
  copy.copy(side, present.first, present.end);

  while (present.colour >= 0) {
    const int own = warp * Plan::kPoints, first = present.first + own, end = present.end;
    const int start = copy.edges.start, degree = copy.edges.stop - start;
    const bool many = __any_sync(kAllLanes, degree > Plan::kEdges);
    const TilePlace following = order.next(present);
    copy.load_rows(following.first, following.end);
    __pipeline_wait_prior(0);
    __syncwarp();
    const float* const x_tile = memory.tiles + side * Plan::kTile * Plan::kStride;
    const auto edges_of = [&](int place) -> FragmentEdges {
      return {memory.edges + (side * Plan::kTile + own + place) * Plan::kEdges, __shfl_sync(kAllLanes, start, place),
              __shfl_sync(kAllLanes, degree, place), many};
    };
    order.wait(present.colour);
    FragmentNeighbours<FLIGHT, Plan, Lane> neighbours;
    neighbours.begin(rows, edges_of(2 * index));
    float scores[TILES][4] = {};
    add_scores<Plan>(scores, x_tile + (own + group) * Plan::kStride + 2 * index, memory.coefficients + 4 * lane);

#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int place = 2 * index + j, point = first + place;
      const bool inside = point < end;
      float around[1][TILES][2] = {};
      neighbours.finish(around[0], rows, edges_of(place), columns, weights);
      if (near && inside) {
        Lane::store(near + static_cast<long long>(point - colours.ends[0]) * row + restart * domains, around[0], group,
                    domains);
      }
      if (Plan::kOwn && j == 0) copy.copy(side ^ 1, following.first, following.end);
      if (j == 0) neighbours.begin(rows, edges_of(place + 1));  // after all branches but that of the store of q
      const float* const field = external + min(point, end - 1) * external_row + restart * external_restart;
      update(scores, j, around, {field}, {inside}, derivatives != nullptr);
      if (inside) Lane::store(q + static_cast<long long>(point) * row + restart * domains, around[0], group, domains);
    }

    if (Plan::kOwn) {
      moments.add_own(x_tile + own * Plan::kStride + group, index, scores);
    } else {
      float* const q_tiles = memory.q_tiles + side * TILES * WARPS * 128 + 4 * lane;
#pragma unroll
      for (int m = 0; m < TILES; ++m) {
        *reinterpret_cast<float4*>(q_tiles + (m * WARPS + warp) * 128) =
            make_float4(scores[m][0], scores[m][2], scores[m][1], scores[m][3]);
      }
      __syncthreads();  // all warps have also read the other tiles
      copy.copy(side ^ 1, following.first, following.end);
      moments.add_shared(x_tile + group, index, q_tiles, warp);
    }
    side ^= 1;
    present = following;
  }
  __pipeline_wait_prior(0);
  order.wait(colours.count - 1);
  __syncthreads();
  moments.finish();
  store_partials<Plan>(own_sums, memory, update);
  cooperative_groups::this_grid().sync();
  add_partials<Plan, BLOCKS, Lane>(shared, partials, sums, counts, derivatives, restarts, domains, width);
}
