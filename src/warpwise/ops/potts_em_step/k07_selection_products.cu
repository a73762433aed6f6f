// Sums of neighbours as products with a selection matrix, for q in bfloat16.
//
// k04 loads rows of q in float32 and adds them by FADD: 340 instructions and 705 lines of L1 for eight points of 65
// domains. In bfloat16 one word of a row is an operand B of mma.sync, so that one product adds 16 domains of a
// neighbour to each of four points. Points are the rows of the accumulators: four lanes have all domains of a point
// (eight in k04), and the TF32 rest of a feature is computed once for all domains. movmatrix transposes q for the
// moments q^T x.
//
// If X is bfloat16, features are operands without conversion: 16 features of a score take two products m16n8k16 instead
// of six m16n8k8, and a tile of moments takes one instead of three. ldmatrix loads A of the scores, and ldmatrix.trans
// B of the moments.

#include <cooperative_groups.h>

#include "colour_order.cuh"
#include "selection_neighbours.cuh"
#include "selection_totals.cuh"

// q: (N, restarts, pitch) in bfloat16, pitch a multiple of eight, aligned to 16 bytes. The first `domains` elements of
// a row are q; with LAST = 0 the others up to the end of the last vector are zeros and are written. LAST, TURN: see
// RowLanes. features: (N, words) words of four bytes; of a row the first `width` numbers, float or bfloat16 (X), are
// features, and the others are finite. The other arguments are those of potts_em_step_in_fragments (k04), with partials
// (gridDim.x, restarts, kSlots, 32). A lane loads FLIGHT edges' rows of q of its two points before it adds the first.
// FIELDS: external_row is not 0. SLOPES, NEAR: derivatives, and near, are not null. Cooperative grid: (blocks,
// restarts) of 32 * WARPS.
template <class X, int WARPS, int BLOCKS, int GROUPS, int TILES, int STEPS, int FEATURES, int WARPS_M, int WARPS_N,
          int FLIGHT, bool LATE, bool DEFERS, bool RESTS, bool KEEPS, int LAST, bool FIELDS, bool WEIGHTED, bool SLOPES,
          bool NEAR, int TURN>
__global__ void __launch_bounds__(32 * WARPS, BLOCKS) potts_em_step_selection_products(
    __nv_bfloat16* q, const X* features, const float* linear, const float* constant, const int* rowptr,
    const int* columns, const float* weights, const float* beta, const float* external, float* partials, float* sums,
    float* counts, float* derivatives, float* near, Colours colours, int restarts, int domains, int width, int words,
    int pitch, long long external_row, long long external_restart, float temper) {
  extern __shared__ __align__(16) float shared[];
  using Plan = SelectionPlan<X, WARPS, GROUPS, TILES, STEPS, FEATURES, WARPS_M, WARPS_N, RESTS, KEEPS, DEFERS>;
  using Lanes = RowLanes<TILES, LAST, TURN>;
  using Neighbours = SelectionNeighbours<FLIGHT, Plan, Lanes, WEIGHTED>;
  const int restart = blockIdx.y, row = restarts * pitch;
  const int warp = __shfl_sync(kAllLanes, threadIdx.x / 32, 0), lane = threadIdx.x % 32, group = lane / 4,
            index = lane % 4;
  const SelectionMemory<Plan> memory(shared);
  TileCopy<Plan, SelectionMemory<Plan>> copy(memory, features, words, rowptr, columns);
  ColourOrder order = {colours, Plan::kOwn ? Plan::kPoints : Plan::kTile};
  if (Plan::kOwn) order.share(warp, WARPS);
  const int own = warp * Plan::kPoints, after = Plan::kOwn ? 0 : own;  // in shared memory, and in the tile
  TilePlace present = order.first();
  copy.load_rows(present.first + after, present.end);
  memory.fill(linear + static_cast<long long>(restart) * domains * width, constant + restart * domains,
              FIELDS ? nullptr : external + restart * external_restart, domains, width, words, kLog2E * temper);
  __syncthreads();

  q += restart * pitch;
  const Lanes rows(q, row, group, index, domains);
  SelectionMoments<Plan> moments(memory, warp, lane);
  SelectionUpdate<Plan, FIELDS> update = {memory, index, domains, kLog2E * beta[restart]};
  unsigned all[4];
  Neighbours::select(all, 0x3f80, group, index);
  int side = 0, x_side = 0;                     // of the buffers of the present tile
  bool pending = false;                         // the moments of the tile before
  unsigned fragments[Plan::kHalves][TILES][4];  // of its q^T: domains as rows, points as columns
  const auto add_moments = [&](int q_side, int of) {
    const float* const x = memory.tiles + of * Plan::kTile * Plan::kStride + moments.at_lane(lane);
    if constexpr (Plan::kOwn && KEEPS) {
      moments.keep_own(x + own * Plan::kStride, group, fragments);
    } else if constexpr (Plan::kOwn) {
      moments.add_own(x + own * Plan::kStride, group, fragments);
    } else {
      __syncthreads();  // all warps have also added the tile before
      moments.add_shared(x, group, memory.q_tiles + q_side * TILES * WARPS * 128 + 4 * lane, warp);
    }
  };
  copy.copy(0, 0, present.first + after, present.end);
  Neighbours neighbours = {rows, nullptr, columns, weights, group, index};
  // The first rows of the next tile, if it has the same colour, are loaded before the last 16 points of the present one
  // are updated. Used where it measured faster (NOTES.md): 32 points per warp, more than 16 domains and up to 32
  // features; or 16 points per warp, 65 to 80 domains and features in bfloat16.
  constexpr bool kTwice = Plan::kHalves > 1;
  constexpr bool kAhead =
      Plan::kOwn && !DEFERS && !LATE &&
      (kTwice ? TILES > 1 && STEPS * Plan::kColumns <= 32 : Plan::kExact && Plan::kPair == 2 && TILES == 5);
  bool begun = false;
  // A run-time condition keeps the compiler from moving instructions across the branch, which would take registers.
  constexpr bool kBranches = !Plan::kOwn;

  while (present.colour >= 0) {
    const int first = present.first + after, end = present.end, next_x = x_side + 1 < Plan::kSides ? x_side + 1 : 0;
    neighbours.degrees = {copy.edges.start, copy.edges.stop - copy.edges.start};
    const TilePlace following = order.next(present);
    copy.load_rows(following.first + after, following.end);
    if (!begun) __pipeline_wait_prior(0);
    __syncwarp();
    const float* const x_tile = memory.tiles + x_side * Plan::kTile * Plan::kStride;
    order.wait(present.colour);
    // Uniform for the assembler too: else loads in flight must complete where lanes meet again.
    const bool some = Plan::kOwn || __any_sync(kAllLanes, first < end);
    if (!begun) neighbours.move(memory.edges + (side * Plan::kTile + own) * Plan::kEdges);
    neighbours.from = 0;  // known to the compiler, so that the lanes of shuffles are constants
    if (DEFERS && some) neighbours.begin();
    if (DEFERS && __any_sync(kAllLanes, pending)) add_moments(side ^ 1, x_side > 0 ? x_side - 1 : Plan::kSides - 1);
    __nv_bfloat16* const first_row = q + static_cast<long long>(first + group) * row;
    unsigned pairs[Plan::kHalves][Plan::kPair][TILES][2];
    if (some) {  // the rows that are loaded are those of neighbours or, for an edge that does not exist, of own points
      float scores[Plan::kHalves][TILES][2][4], around[Plan::kPair][TILES][4];
      if (!DEFERS && !begun) neighbours.begin();
      if (kAhead && !kTwice) copy.copy(side ^ 1, next_x, following.first, following.end);
      if (LATE) neighbours.finish(around, all);
      const int at = own * Plan::kStride + (Plan::kExact ? 0 : group * Plan::kStride + index);
      find_scores<Plan>(scores, x_tile + at, memory.coefficients + Plan::kOf * lane, memory.offsets + 2 * index);
#pragma unroll
      for (int p = 0; p < Plan::kHalves; ++p) {
        if (!LATE || p > 0) neighbours.finish(around, all);
        if (p + 1 < Plan::kHalves) neighbours.begin(16 * (p + 1));
        if (kAhead && kTwice && p == 0) copy.copy(side ^ 1, next_x, following.first, following.end);
        if (kAhead && p + 1 == Plan::kHalves) {
          __pipeline_wait_prior(0);
          __syncwarp();
          begun = __all_sync(kAllLanes, following.colour == present.colour);  // else they are loaded after the barrier
          if (begun) {
            neighbours.move(memory.edges + ((side ^ 1) * Plan::kTile + own) * Plan::kEdges);
            neighbours.begin();
          }
        }
        const float* fields[Plan::kPair];
        bool inside[Plan::kPair];
#pragma unroll
        for (int j = 0; j < Plan::kPair; ++j) {
          const int point = first + 16 * p + 8 * j + group;
          inside[j] = point < end;
          fields[j] = external + min(point, end - 1) * external_row + restart * external_restart;
          if (NEAR && (!kBranches || near) && inside[j]) {
            float* const to = near + (static_cast<long long>(point - colours.ends[0]) * restarts + restart) * domains;
#pragma unroll
            for (int i = 0; i < 4 * TILES; ++i) {
              const int k = Lanes::domain(i / 4, index, i / 2 % 2, i % 2);
              if (k < domains) to[k] = around[j][i / 4][i % 4];
            }
          }
        }
        update(scores[p], around, fields, inside, SLOPES && (!kBranches || derivatives), pairs[p]);
        __syncwarp();  // rows of these points may have been loaded in place of edges that do not exist
#pragma unroll
        for (int j = 0; j < Plan::kPair; ++j) {
          __nv_bfloat16* const to = first_row + static_cast<long long>(16 * p + 8 * j) * row;
          if (inside[j]) Lanes::store(to, pairs[p][j], index, domains);
        }
        if (p + 1 < Plan::kHalves) __syncwarp();  // and those of the first half, by the second
      }
    } else {
#pragma unroll
      for (int i = 0; i < 2 * TILES * GROUPS; ++i) {
        const int j = i / (2 * TILES);
        pairs[j / Plan::kPair][j % Plan::kPair][i / 2 % TILES][i % 2] = 0;
      }
    }
    if (Plan::kOwn && DEFERS) __syncwarp();  // all lanes have added the tile before
    if (!kAhead && (Plan::kOwn || DEFERS)) copy.copy(side ^ 1, next_x, following.first + after, following.end);
    const bool ends = following.colour != present.colour;
    if (ends) order.arrive(following);
#pragma unroll
    for (int m = 0; m < TILES * Plan::kHalves; ++m) {
      const int p = m / TILES;
      unsigned (&four)[4] = fragments[p][m % TILES];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        four[i] = i / 2 < Plan::kPair ? transposed(pairs[p][i / 2 % Plan::kPair][m % TILES][i % 2]) : 0;
      }
      if (!Plan::kOwn) {
        unsigned* const to = memory.q_tiles + ((side * TILES + m) * WARPS + warp) * 128 + 4 * lane;
        *reinterpret_cast<uint4*>(to) = make_uint4(four[0], four[1], four[2], four[3]);
      }
    }
    pending = DEFERS && !ends;
    if (!pending) add_moments(side, x_side);
    if (!Plan::kOwn && !DEFERS) copy.copy(side ^ 1, next_x, following.first + after, following.end);
    side ^= 1;
    x_side = next_x;
    present = following;
  }
  __pipeline_wait_prior(0);
  order.wait(colours.count - 1);
  __syncthreads();
  moments.flush();
  store_partials<Plan>(partials + (static_cast<long long>(blockIdx.x) * restarts + restart) * 32 * Plan::kSlots, memory,
                       update);
  cooperative_groups::this_grid().sync();
  add_partials<Plan, BLOCKS>(shared, partials, sums, counts, derivatives, restarts, domains, width, words);
}
