// A row of q for eight adjacent lanes, for features and q in bfloat16.
//
// In k07 eight lanes, which L1 serves at once, load vectors of four rows. If the pitch of the rows is not a multiple of
// 64 bytes, these vectors share banks, and a load takes up to three times the wavefronts that its bytes need. Here
// eight adjacent lanes load up to 128 adjacent bytes of one row. The points are then the columns of the accumulators
// (k04), eight lanes have the domains of a point, and the new probabilities are operands of the moments without an
// exchange between lanes.

#include <cooperative_groups.h>

#include "colour_order.cuh"
#include "eight_neighbours.cuh"
#include "eight_products.cuh"
#include "fragment_update.cuh"
#include "selection_totals.cuh"

// The arguments are those of potts_em_step_selection_products (k07). The first `columns` elements of a row of q, whole
// vectors of 16 bytes, are the domains and zeros. weights is null. A lane loads FLIGHT rows' vectors before it adds the
// first. FIELDS, SLOPES, NEAR: see k07. Cooperative grid: (blocks, restarts) of 32 * WARPS.
template <int WARPS, int TILES, int STEPS, int FEATURES, int FLIGHT, bool KEEPS, bool FIELDS, bool WEIGHTED,
          bool SLOPES, bool NEAR>
__global__ void __launch_bounds__(32 * WARPS, 1) potts_em_step_eight_lanes(
    __nv_bfloat16* q, const __nv_bfloat16* features, const float* linear, const float* constant, const int* rowptr,
    const int* columns, const float* weights, const float* beta, const float* external, float* partials, float* sums,
    float* counts, float* derivatives, float* near, Colours colours, int restarts, int domains, int width, int words,
    int pitch, long long external_row, long long external_restart, float temper) {
  static_assert(!WEIGHTED, "a product has no place for weights");
  extern __shared__ __align__(16) float shared[];
  using Plan = EightPlan<WARPS, TILES, STEPS, FEATURES, KEEPS>;
  using Lanes = typename Plan::Lanes;
  const int restart = blockIdx.y, row = restarts * pitch, stored = (domains + 7) / 8 * 8;
  const int warp = __shfl_sync(kAllLanes, threadIdx.x / 32, 0), lane = threadIdx.x % 32, group = lane / 4,
            index = lane % 4;
  const EightMemory<Plan> memory(shared);
  TileCopy<Plan, EightMemory<Plan>> copy(memory, features, words, rowptr, columns);
  ColourOrder order = {colours, Plan::kPoints};
  order.share(warp, WARPS);
  const int own = warp * Plan::kPoints;
  TilePlace present = order.first();
  copy.load_rows(present.first, present.end);
  memory.fill(linear + static_cast<long long>(restart) * domains * width, constant + restart * domains,
              FIELDS ? nullptr : external + restart * external_restart, domains, width, kLog2E * temper);
  __syncthreads();

  q += restart * pitch;
  const Lanes rows(q, row, stored);
  EightNeighbours<FLIGHT, Plan, Lanes> neighbours(rows, columns, group, index);
  SelectionMoments<Plan> moments(memory, warp, lane);
  FragmentUpdate<Plan, Lanes, FIELDS, EightMemory<Plan>> update = {memory, group, domains, kLog2E * beta[restart]};
  int side = 0;  // of the buffers of the present tile
  bool begun = false;
  copy.copy(0, 0, present.first, present.end);

  while (present.colour >= 0) {
    const int first = present.first, end = present.end;
    neighbours.degrees = {copy.edges.start, copy.edges.stop - copy.edges.start};
    const TilePlace following = order.next(present);
    copy.load_rows(following.first, following.end);
    if (!begun) {
      __pipeline_wait_prior(0);
      __syncwarp();
    }
    const float* const x = memory.tiles + (side * Plan::kTile + own) * Plan::kStride;
    order.wait(present.colour);
    if (!begun) neighbours.begin(memory.edges + (side * Plan::kTile + own) * Plan::kEdges);
    typename decltype(neighbours)::Sums around;
    neighbours.finish(around);
    copy.copy(side ^ 1, side ^ 1, following.first, following.end);
    float scores[2][TILES][4];
    find_scores<Plan>(scores, x, memory.coefficients + 4 * lane, memory.offsets + 2 * group);

    unsigned fragments[1][TILES][4];  // q^T: domains as rows, points as columns
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      float of[2][TILES][2];  // sums of neighbours, then probabilities
      const float* fields[2];
      bool inside[2];
#pragma unroll
      for (int p = 0; p < 2; ++p) {
        const int point = first + 4 * (2 * j + p) + index;
        inside[p] = point < end;
        fields[p] = external + min(point, end - 1) * external_row + restart * external_restart;
        float* const to = near + (static_cast<long long>(point - colours.ends[0]) * restarts + restart) * domains;
#pragma unroll
        for (int i = 0; i < 2 * TILES; ++i) {
          of[p][i / 2][i % 2] = around[2 * j + p][i / 4][i % 2 * 2 + i / 2 % 2];
          const int k = Lanes::domain(i / 2, group, i % 2);
          if (NEAR && inside[p] && k < domains) to[k] = of[p][i / 2][i % 2];
        }
      }
      update(scores[j], 0, of, fields, inside, SLOPES && derivatives);
      unsigned words[2][TILES];
#pragma unroll
      for (int m = 0; m < TILES; ++m) {
#pragma unroll
        for (int p = 0; p < 2; ++p) {
          const __nv_bfloat162 both = __floats2bfloat162_rn(of[p][m][0], of[p][m][1]);
          words[p][m] = *reinterpret_cast<const unsigned*>(&both);
        }
        fragments[0][m][2 * j] = __byte_perm(words[0][m], words[1][m], 0x5410);
        fragments[0][m][2 * j + 1] = __byte_perm(words[0][m], words[1][m], 0x7632);
      }
      __syncwarp();  // rows of these points may have been loaded in place of edges that do not exist
      const int point = first + 4 * (2 * j + group / 4) + index;
      __nv_bfloat16* const to = q + static_cast<long long>(point) * row;
      Lanes::for_vectors(words, group, point < end ? stored : 0, [&](int k, auto vector) {
        if constexpr (sizeof(vector) == 16) {
          __stcg(reinterpret_cast<uint4*>(to + k), make_uint4(vector.at[0], vector.at[1], vector.at[2], vector.at[3]));
        } else {
          __stcg(reinterpret_cast<uint2*>(to + k), make_uint2(vector.at[0], vector.at[1]));
        }
      });
    }
    // The first rows of the next tile, if it has the same colour; else they are loaded after the barrier.
    begun = __all_sync(kAllLanes, following.colour == present.colour);
    if (begun) {
      __pipeline_wait_prior(0);
      __syncwarp();
      neighbours.begin(memory.edges + ((side ^ 1) * Plan::kTile + own) * Plan::kEdges);
    } else {
      order.arrive(following);
    }
    if constexpr (KEEPS) {
      moments.keep_own(x, group, fragments);
    } else {
      moments.add_own(x, group, fragments);
    }
    __syncwarp();  // all lanes have added the tile before its features are replaced
    side ^= 1;
    present = following;
  }
  __pipeline_wait_prior(0);
  order.wait(colours.count - 1);
  moments.flush();
  __syncthreads();
  store_partials<Plan>(partials + (static_cast<long long>(blockIdx.x) * restarts + restart) * 32 * Plan::kSlots, memory,
                       update);
  cooperative_groups::this_grid().sync();
  add_partials<Plan, 1>(shared, partials, sums, counts, derivatives, restarts, domains, width, words);
}
