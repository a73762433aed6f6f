// Scores and moments by wgmma, for features and q in bfloat16: warpgroups that update points, and one that adds
// moments.
//
// In k07 each warp loads all coefficients from shared memory for 16 or 32 points, and warps that share moments load the
// q of all others. At 128 features and 100 domains these loads take most of the cycles of L1. Here 64 points, their q
// and the coefficients are operands of wgmma, which reads them from shared memory without registers of the threads. The
// tile of features is operand A of both products: K-major for the scores, MN-major for the moments q^T x, which one
// warpgroup adds in its registers while the others update the next points. Domains of the coefficients are in the order
// in which lanes load rows of q (row_lanes.cuh), so that the sums of neighbours and the softmax have the code of k07.

#include <cooperative_groups.h>

#include "colour_order.cuh"
#include "selection_neighbours.cuh"
#include "selection_update.cuh"
#include "slot_totals.cuh"
#include "warpgroup_products.cuh"

// The arguments are those of potts_em_step_selection_products (k07). features: bfloat16, up to 128 columns. FLIGHT,
// LAST, TURN, FIELDS, WEIGHTED, SLOPES, NEAR: see k07. Cooperative grid: (blocks, restarts) of 128 * (UPDATERS + 1).
template <int UPDATERS, int VECTORS, int TILES, int FLIGHT, int LAST, bool FIELDS, bool WEIGHTED, bool SLOPES,
          bool NEAR, int TURN>
__global__ void __launch_bounds__(128 * (UPDATERS + 1), 1) potts_em_step_warpgroup_products(
    __nv_bfloat16* q, const __nv_bfloat16* features, const float* linear, const float* constant, const int* rowptr,
    const int* columns, const float* weights, const float* beta, const float* external, float* partials, float* sums,
    float* counts, float* derivatives, float* near, Colours colours, int restarts, int domains, int width, int words,
    int pitch, long long external_row, long long external_restart, float temper) {
  namespace sm90 = warpwise::sm90;
  extern __shared__ __align__(1024) float shared[];
  using Plan = WarpgroupPlan<UPDATERS, VECTORS, TILES>;
  using Lanes = RowLanes<TILES, LAST, TURN>;
  const int restart = blockIdx.y, row = restarts * pitch;
  const int warp = __shfl_sync(kAllLanes, threadIdx.x / 32, 0), lane = threadIdx.x % 32, group = lane / 4,
            index = lane % 4, updater = warp / 4;
  const WarpgroupMemory<Plan> memory(shared);
  memory.fill(linear + static_cast<long long>(restart) * domains * width, constant + restart * domains,
              FIELDS ? nullptr : external + restart * external_restart, domains, width, kLog2E * temper);
  __syncthreads();

  // Tile s of a block's tiles of a colour is that of updater s % UPDATERS.
  ColourOrder order = {colours, Plan::kRows};
  float* const others = memory.others + warp * Plan::kOthers * 32 + lane;
  others[0] = others[32] = 0.0f;
  if (updater == UPDATERS) {
    WarpgroupMoments<Plan> moments(memory);
    unsigned sides = 0;  // bit u: of the present tile of updater u
    int of = 0;
    for (TilePlace present = order.first(); present.colour >= 0;) {
      const TilePlace following = order.next(present);
      const int side = sides >> of & 1;
      order.wait(present.colour);
      sm90::mbarrier_wait(memory.full + 8 * of, side);
      const bool ends = following.colour != present.colour;
      if (ends) order.arrive(following);
      moments.add(of, side);
      __syncwarp();
      if (lane == 0) sm90::mbarrier_arrive(memory.empty + 8 * of);
      sides ^= 1u << of;
      of = ends || of + 1 == UPDATERS ? 0 : of + 1;
      present = following;
    }
    moments.finish();
  } else {
    order.share(updater, UPDATERS);
    q += restart * pitch;
    const int in_rows = warp % 4 * Plan::kPoints, own = updater * Plan::kRows + in_rows;  // in a tile, and in the block
    const Lanes rows(q, row, group, index, domains);
    TileCopy<Plan, WarpgroupMemory<Plan>> copy(memory, features, words, rowptr, columns);
    SelectionUpdate<Plan, FIELDS, WarpgroupMemory<Plan>> update = {memory, index, domains, kLog2E * beta[restart]};
    SelectionNeighbours<FLIGHT, Plan, Lanes, WEIGHTED> neighbours = {rows, nullptr, columns, weights, group, index};
    unsigned all[4];
    neighbours.select(all, 0x3f80, group, index);
    char* const q_tile = reinterpret_cast<char*>(memory.q_tiles + updater * Plan::kRows * Plan::kStrideOfQ);
    TilePlace present = order.first();
    copy.load_rows(present.first + in_rows, present.end);
    copy.copy(0, 0, present.first + in_rows, present.end);
    for (int t = 0; present.colour >= 0; ++t) {
      const int first = present.first + in_rows, end = present.end, side = t % 2;
      neighbours.degrees = {copy.edges.start, copy.edges.stop - copy.edges.start};
      const TilePlace following = order.next(present);
      copy.load_rows(following.first + in_rows, following.end);
      __pipeline_wait_prior(0);
      sm90::fence_proxy_async();  // wgmma reads the features
      __syncwarp();
      order.wait(present.colour);
      float scores[TILES][2][4], around[Plan::kPair][TILES][4] = {};
      // Uniform for the assembler too: else loads in flight must complete where lanes meet again.
      if (__any_sync(kAllLanes, first < end)) {
        neighbours.move(memory.edges + (side * Plan::kTile + own) * Plan::kEdges);
        neighbours.begin();
        neighbours.finish(around, all);
      }
      if (t > 0) sm90::mbarrier_wait(memory.empty + 8 * updater, side ^ 1);  // the moments of the tile before
      copy.copy(side ^ 1, side ^ 1, following.first + in_rows, following.end);
      sm90::named_barrier_sync(1 + updater, 128);
      const float* fields[Plan::kPair];
      bool inside[Plan::kPair];
#pragma unroll
      for (int j = 0; j < Plan::kPair; ++j) {
        const int point = first + 8 * j + group;
        inside[j] = point < end;
        fields[j] = external + min(point, end - 1) * external_row + restart * external_restart;
        if (NEAR && inside[j]) {
          float* const to = near + (static_cast<long long>(point - colours.ends[0]) * restarts + restart) * domains;
#pragma unroll
          for (int i = 0; i < 4 * TILES; ++i) {
            const int k = Lanes::domain(i / 4, index, i / 2 % 2, i % 2);
            if (k < domains) to[k] = around[j][i / 4][i % 4];
          }
        }
      }
      typename decltype(update)::Priors priors = {};
      find_scores<Plan>(scores, memory.tiles + (side * Plan::kTile + updater * Plan::kRows) * Plan::kStride,
                        memory.coefficients, memory.offsets + 2 * index, [&] {
                          if (SLOPES && derivatives) priors = update.priors(around, fields);
                        });

      unsigned pairs[Plan::kPair][TILES][2];
      update.gradient = update.curvature = 0.0f;
      update(scores, around, fields, inside, SLOPES && derivatives, pairs, &priors);
      others[0] += update.gradient;
      others[32] += update.curvature;
      __syncwarp();  // rows of these points may have been loaded in place of edges that do not exist
#pragma unroll
      for (int j = 0; j < Plan::kPair; ++j) {
        const int point = 8 * j + group;
        if (inside[j]) Lanes::store(q + static_cast<long long>(first + point) * row, pairs[j], index, domains);
        Lanes::for_vectors(pairs[j], index, domains, [&](int k, auto vector, int) {
          const unsigned place = Plan::Probabilities::place(in_rows + point, k / 8) + k % 8 * 2;
          *reinterpret_cast<decltype(vector)*>(q_tile + place) = vector;
        });
      }
      sm90::fence_proxy_async();  // wgmma reads q
      __syncwarp();
      if (lane == 0) sm90::mbarrier_arrive(memory.full + 8 * updater);
      if (following.colour != present.colour) order.arrive(following);
      present = following;
    }
    __pipeline_wait_prior(0);
  }
  order.wait(colours.count - 1);
  others[0] = team_sum<32>(others[0]);
  others[32] = team_sum<32>(others[32]);
  add_warps<Plan>(partials + (static_cast<long long>(blockIdx.x) * restarts + restart) * 32 * Plan::kSlots, memory);
  cooperative_groups::this_grid().sync();
  add_blocks<Plan, 1>(shared, partials, restarts, [&](int slot, float total) {
    const int counted = slot - Plan::kMoments;
    if (counted < 0) {
      WarpgroupMoments<Plan>::store(32 * slot + lane, total, sums + static_cast<long long>(restart) * domains * width,
                                    counts + restart * domains, domains, width);
    } else if (derivatives && lane == 0) {
      derivatives[counted * restarts + restart] = total;
    }
  });
}
