// One cooperative launch for all colours, a tile of 32 points for each warp, and products by tensor cores.
//
// Between two colours the grid synchronises: a block arrives as soon as the last q of a colour is stored, and computes
// derivatives, moments and the scores of its first points of the next colour before it waits. The features, the row
// pointers and the columns of a warp's next tile, which do not depend on q, are copied before. Within a colour a warp
// waits for no other. A lane has all domains of a point, or two lanes share them, and loads eight neighbours before it
// adds the first. Scores are products of (16, 8) features with (8, 8) coefficients and return to the lanes of their
// points through shared memory. The moments sum_i x_i q_i are products of (width, 32) with (32, domains). In both, each
// operand is the sum of two TF32 numbers, and three of the four products are added, which keeps float32's accuracy. A
// warp keeps its moments in registers over all colours; at the end the grid adds those of its blocks in a fixed order.

#include <cooperative_groups.h>

#include "warp_neighbours.cuh"
#include "warp_products.cuh"
#include "warp_totals.cuh"

// Colour by colour, rows of q: (n, restarts, domains) are replaced by softmax(temper * score + beta * near + external),
// near = sum_j w_ij q_j. Their scores are features: (n, width) times linear: (restarts, domains, width), plus constant:
// (restarts, domains). external: rows of domains, external_row apart from point to point, external_restart from restart
// to restart. weights and near: (rows from that of the first colour on, restarts, domains) may be null.
//
// sums: (restarts, domains, width) of q x, counts: (restarts, domains) of q, and derivatives: (2, restarts) of the
// pseudo-likelihood for beta, or null. partials: eight zeros for each block, then (restarts, size, gridDim.x), size =
// domains * width + domains + 2 = these sums of each block. Cooperative grid: (blocks, restarts) of kThreads. LANES * 4
// is at least domains, and equal to it if FULL; ROWS * 16 is at least width. VECTOR: domains is a multiple of 4, and q,
// external and near are aligned to 16 bytes. FIELDS: external_row is not 0. Shared: see warp_tile_of in tiles.py.
template <int LANES, int ROWS, bool VECTOR, bool FULL, bool FIELDS>
__global__ void __launch_bounds__(kThreads, blocks_an_sm(ROWS)) potts_em_step_one_launch(
    float* q, const float* features, const float* linear, const float* constant, const int* rowptr, const int* columns,
    const float* weights, const float* beta, const float* external, float* partials, float* sums, float* counts,
    float* derivatives, float* near, Colours colours, int restarts, int domains, int width, long long external_row,
    long long external_restart, float temper) {
  extern __shared__ __align__(16) float shared[];
  using Plan = WarpPlan<LANES, ROWS, FULL>;
  constexpr int kTile = Plan::kTile, kPass = Plan::kPass, kOwn = Plan::kOwn, kPoints = Plan::kPoints;
  const int restart = blockIdx.y, stride = warpwise::tile_stride(width), row = restarts * domains;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, part = lane % LANES;
  const int own = 4 * part;  // the lane's first domain
  const WarpMemory<Plan> memory(shared, warp, stride);
  memory.fill(linear + restart * domains * width, constant + restart * domains,
              FIELDS ? nullptr : external + restart * external_restart, domains, width, kLog2E * temper);
  float* const zero_row = partials + kDomains * (blockIdx.y * gridDim.x + blockIdx.x);
  partials += kDomains * gridDim.x * restarts;
  if (threadIdx.x < kDomains) zero_row[threadIdx.x] = 0.0f;
  __syncthreads();

  WarpFetch<Plan> next(memory, features, width, rowptr, columns);
  const WarpNeighbours<Plan, VECTOR> neighbours = {reinterpret_cast<const char*>(q + restart * domains + own),
                                                   reinterpret_cast<const char*>(zero_row + own),
                                                   4u * row,
                                                   FULL ? 4 : domains - own,
                                                   columns,
                                                   weights};
  WarpUpdate<Plan> update = {domains, part, own, kLog2E * beta[restart]};
  float moments[ROWS][4] = {};
  const int step = gridDim.x * kWarps * kTile, near_begin = colours.ends[0];
  const auto first_of = [&](int colour) { return colours.ends[colour] + (blockIdx.x * kWarps + warp) * kTile; };
  const auto here = [&](bool inside) { return !inside ? 0 : FULL ? 4 : domains - own; };  // the lane's domains
  const auto grid = cooperative_groups::this_grid();
  cooperative_groups::grid_group::arrival_token arrived = 0;
  next(first_of(0), colours.ends[1], 0);
  next.copy_edges();

  int buffer = 0;
  for (int colour = 0; colour < colours.count; ++colour) {
    const int end = colours.ends[colour + 1];
    const bool final = colour + 1 == colours.count;
    const int later = final ? 0 : first_of(colour + 1), later_end = final ? 0 : colours.ends[colour + 2];
    int first = first_of(colour);
    bool waits = colour > 0;
    for (bool more = true; more; first += step, buffer ^= 1) {  // a warp without points takes part in the barriers
      more = end - first > step;
      const WarpEdges edges(next);
      next(more ? first + step : later, more ? end : later_end, buffer ^ 1);
      __pipeline_wait_prior(1);
      __syncwarp();
      const float* const tile = memory.tiles + buffer * kTile * stride;
      store_scores(memory, tile, stride, width);
      __syncwarp();

      if (waits) grid.barrier_wait(static_cast<unsigned&&>(arrived));
      waits = false;
      float support[kPoints][kOwn] = {}, scores[kPoints][kOwn], fields[kPoints][kOwn];
      neighbours(support, edges, memory.edges);
#pragma unroll
      for (int j = 0; j < kPoints; ++j) {
        const int place = lane / LANES + kPass * j, point = first + place;
        const bool inside = point < end;
        auto values = *reinterpret_cast<const warpwise::Float4*>(memory.fields + own);
        if (FIELDS) {
          const float* const from = external + point * external_row + restart * external_restart + own;
          values = warpwise::load4<VECTOR>(from, here(inside));
        }
        float* const scored = memory.q_tile + place * Plan::kQStride + own;
        update(scores[j], fields[j], support[j], values, FIELDS ? kLog2E : 1.0f, scored, inside);
        store_own<VECTOR>(q + static_cast<long long>(point) * row + restart * domains + own, scores[j], here(inside));
      }
      __syncwarp();
      if (!more && !final) arrived = grid.barrier_arrive();
      next.copy_edges();

#pragma unroll
      for (int j = 0; j < kPoints; ++j) {
        const int point = first + lane / LANES + kPass * j;
        const bool inside = point < end;
        if (near) {
          float* const to = near + static_cast<long long>(point - near_begin) * row + restart * domains + own;
          store_own<VECTOR>(to, support[j], here(inside));
        }
        if (derivatives) update.add_derivatives(scores[j], fields[j], support[j], inside);
      }
      add_moments<Plan>(moments, memory.q_tile, tile, stride, width);
      __syncwarp();  // the tile has been read: the next copy may overwrite it
    }
  }
  __pipeline_wait_prior(0);
  __syncthreads();
  const int size = domains * width + domains + 2;
  store_partials(partials + static_cast<long long>(restart) * size * gridDim.x, shared, moments, update, width);
  grid.sync();
  add_partials(partials, sums, counts, derivatives, restarts, domains, width);
}
