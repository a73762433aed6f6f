// Scores by tensor cores too, and all of a point in the fragments of one warp: for many domains and features.
//
// With K domains and D features k03 needs K * D moments in the registers of each warp, and an FMA of a coefficient from
// shared memory for each of the K * D products of a point. Here mma.sync multiplies (domains, width) coefficients with
// (width, points) features of a warp's eight points: lane 4 g + t has points 2 t and 2 t + 1, and the domains of rows g
// and g + 8 of each tile of 16. It loads rows of q of the neighbours of its own two points, with eight lanes at
// adjacent domains, so that one address serves all domains of a lane. Sums, softmax and derivatives stay in these
// registers. So does q, which is the operand A of the moments q^T x: index t of their inner dimension is point 2 t, and
// t + 4 is point 2 t + 1. If a warp can hold the moments of all domains and features, it adds its own points and waits
// for no other warp within a colour; else a block shares q, and each warp has some of the moments. All products add
// three of the four products of TF32 pairs, which keeps float32's accuracy.

#include <cooperative_groups.h>
#include <warpwise/sm80/copy_rows.cuh>
#include <warpwise/sm80/tf32.cuh>

#include "colours.cuh"
#include "fragments.cuh"

constexpr int kEdges = 8;              // of a point, copied to shared memory one tile ahead
constexpr int kPoints = 8;             // of a warp's tile
constexpr int kTilesBeforeFlush = 16;  // tensor cores round sums towards zero: few are added there
constexpr int kRows = 16;              // of partial sums, in flight

// If a sum of powers of two is between this and its inverse, terms that are flushed to zero do not count.
constexpr float kSafe = 1e18f;

// The arguments are those of potts_em_step_one_launch (k03), except partials: (gridDim.x, restarts, kSlots, 32). TILES
// * 16 is at least domains, STEPS * 8 at least width. VEC divides domains, and q, external and near are aligned to VEC
// floats. A lane loads FLIGHT rows of q before it adds the first. FIELDS: external_row is not 0. Cooperative grid:
// (blocks, restarts) of 32 * WARPS. Shared: see fragment_tile_of in rungs.py.
template <int WARPS, int BLOCKS, int TILES, int STEPS, int WARPS_N, int FLIGHT, int VEC, bool FIELDS>
__global__ void __launch_bounds__(32 * WARPS, BLOCKS) potts_em_step_in_fragments(
    float* q, const float* features, const float* linear, const float* constant, const int* rowptr, const int* columns,
    const float* weights, const float* beta, const float* external, float* partials, float* sums, float* counts,
    float* derivatives, float* near, Colours colours, int restarts, int domains, int width, long long external_row,
    long long external_restart, float temper) {
  extern __shared__ __align__(16) float shared[];
  using Lane = LaneDomains<TILES, VEC>;
  constexpr int kThreads = 32 * WARPS, kHeld = 16 * TILES;
  constexpr int kMoments = 4 * TILES * STEPS, kOthers = 2 * TILES + 2, kSlots = kMoments + kOthers;  // sums of a lane
  constexpr int kStride = warpwise::tile_stride(8 * STEPS), kTile = WARPS * kPoints;
  constexpr bool kOwn = WARPS_N == 0;  // else a warp has up to MI x NI tiles of the moments
  constexpr int MI = kOwn ? TILES : TILES > 1 ? 2 : 1, NI = kOwn ? STEPS : (STEPS + WARPS_N - 1) / (kOwn ? 1 : WARPS_N);
  constexpr int kWarpsM = kOwn || TILES <= 2 ? 1 : TILES > 4 ? 4 : 2, kSharing = kOwn ? 1 : kWarpsM * WARPS_N;
  constexpr int kParts = WARPS / kSharing;  // of the points of a tile
  const int restart = blockIdx.y, row = restarts * domains;
  const int warp = __shfl_sync(kAllLanes, threadIdx.x / 32, 0), lane = threadIdx.x % 32, group = lane / 4,
            index = lane % 4;
  float* const coefficients = shared;                       // [step][tile][lane][4]: fragments
  float* const offsets = coefficients + 8 * STEPS * kHeld;  // [tile][group][2]
  float* const fields = offsets + kHeld;
  float* const tiles = fields + kHeld;  // [side][point][stride]
  int* const edge_tiles = reinterpret_cast<int*>(tiles + 2 * kTile * kStride);
  float* const q_tiles = tiles + 2 * kTile * (kStride + kEdges);  // if shared: [side][tile][warp][lane][4]
  float* const sums_of_parts = kOwn ? q_tiles : shared;           // [part][slot][lane]
  float* const others = sums_of_parts + 32 * kMoments * kParts;   // [warp][slot][lane]

  // All logits are in units of log 2.
  const float strength = kLog2E * beta[restart], sharpness = kLog2E * temper;
  for (int i = threadIdx.x; i < 8 * STEPS * kHeld; i += kThreads) {
    const int element = i % 4, of = i / 4 % 32, m = i / 128 % TILES, step = i / (128 * TILES);
    const int k = Lane::domain(m, of / 4, element % 2), d = 8 * step + of % 4 * 2 + element / 2;
    const bool exists = k < domains && d < width;
    coefficients[i] = exists ? sharpness * linear[(static_cast<long long>(restart) * domains + k) * width + d] : 0.0f;
  }
  for (int i = threadIdx.x; i < kHeld; i += kThreads) {
    const int k = Lane::domain(i / 16, i / 2 % 8, i % 2);
    fields[i] = k >= domains ? warpwise::minus_infinity()
                : FIELDS     ? 0.0f
                             : kLog2E * external[restart * external_restart + k];
    offsets[i] = k < domains ? sharpness * constant[restart * domains + k] + fields[i] : warpwise::minus_infinity();
  }
  for (int i = threadIdx.x; i < 2 * kTile * kStride; i += kThreads) tiles[i] = 0.0f;  // the padding stays
  for (int i = threadIdx.x; kOwn && i < 32 * kMoments * kParts; i += kThreads) sums_of_parts[i] = 0.0f;
  __syncthreads();

  warpwise::WarpCopy<kPoints> copy(features, width);
  copy.stride = kStride;
  const int first_m = kOwn ? 0 : warp % kWarpsM * MI, first_n = kOwn ? 0 : warp / kWarpsM % (kOwn ? 1 : WARPS_N) * NI;
  float* const own_sums = sums_of_parts + warp / kSharing * kMoments * 32 + lane;
  float moments[MI][NI][4] = {}, count[TILES][2] = {};
  float gradient = 0.0f, curvature = 0.0f;
  int unflushed = 0;
  const auto flush = [&] {
#pragma unroll
    for (int m = 0; m < MI; ++m) {
#pragma unroll
      for (int n = 0; n < NI; ++n) {
        if (first_m + m >= TILES || first_n + n >= STEPS) continue;
        float* const to = own_sums + ((first_m + m) * STEPS + first_n + n) * 4 * 32;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          to[32 * i] = kOwn ? to[32 * i] + moments[m][n][i] : moments[m][n][i];
          moments[m][n][i] = 0.0f;
        }
      }
    }
    unflushed = 0;
  };

  const Lane rows(q + restart * domains, row, group, domains);
  const int near_begin = colours.ends[0];
  int side = 0;                       // of the buffers of the present tile
  int next_start = 0, next_stop = 0;  // of the edges of point `lane` of the next tile
  // Of a colour's tile t, or the end. Every other colour goes backwards and begins with rows of q that are in L2.
  const auto tiles_of = [&](int colour) {
    return (colours.ends[colour + 1] - colours.ends[colour] + kTile - 1) / kTile;
  };
  const auto first_of = [&](int colour, int t) {
    const int tiles = tiles_of(colour), at = colour % 2 ? tiles - 1 - t : t;
    return t < tiles ? colours.ends[colour] + at * kTile : colours.ends[colour + 1];
  };
  const auto fetch_rows = [&](int from, int end) {
    from += warp * kPoints;
    next_start = next_stop = 0;
    if (from < end && lane < kPoints) {
      next_start = rowptr[min(from + lane, end)];
      next_stop = rowptr[min(from + lane + 1, end)];
    }
  };
  // The features of a tile, and the neighbours by the first edges of each point, or -1.
  const auto fetch_tile = [&](int to_side, int from, int end) {
    int* const edges = edge_tiles + (to_side * kTile + warp * kPoints) * kEdges;
#pragma unroll
    for (int i = lane; i < kPoints * kEdges; i += 32) {
      const int edge = __shfl_sync(kAllLanes, next_start, i / kEdges) + i % kEdges;
      if (edge < __shfl_sync(kAllLanes, next_stop, i / kEdges))
        warpwise::mma::cp_async<4>(warpwise::shared_address(edges + i), columns + edge, true);
      else
        edges[i] = -1;
    }
    copy(tiles + (to_side * kTile + warp * kPoints) * kStride, from + warp * kPoints, end);
    __pipeline_commit();
  };
  fetch_rows(first_of(0, blockIdx.x), colours.ends[1]);
  fetch_tile(0, first_of(0, blockIdx.x), colours.ends[1]);

  for (int colour = 0; colour < colours.count; ++colour) {
    const int end = colours.ends[colour + 1];
    const bool final = colour + 1 == colours.count;
    const int later = final ? 0 : first_of(colour + 1, blockIdx.x), later_end = final ? 0 : colours.ends[colour + 2];
    const int tiles_of_colour = tiles_of(colour);
    if (static_cast<int>(blockIdx.x) >= tiles_of_colour) {
      fetch_rows(later, later_end);
      __pipeline_wait_prior(0);
      __syncwarp();
      fetch_tile(side, later, later_end);
    }
    if (colour > 0) cooperative_groups::this_grid().sync();
    for (int t = blockIdx.x; t < tiles_of_colour; t += gridDim.x) {
      const int first = first_of(colour, t);
      const int start = next_start, degree = next_stop - next_start;
      const bool full = __all_sync(kAllLanes, lane >= kPoints || degree >= kEdges);
      const bool many = __any_sync(kAllLanes, degree > kEdges);
      const bool more = t + static_cast<int>(gridDim.x) < tiles_of_colour;
      const int next = more ? first_of(colour, t + gridDim.x) : later, next_end = more ? end : later_end;
      fetch_rows(next, next_end);
      __pipeline_wait_prior(0);
      __syncwarp();
      const float* const x_tile = tiles + side * kTile * kStride;
      const int own = warp * kPoints;

      // Sum i of a tile belongs to point 2 index + i % 2 and row group + i / 2 * 8. Index t of the inner dimension is
      // feature 2 t of a step, index t + 4 is feature 2 t + 1.
      float scores[TILES][4] = {};
#pragma unroll
      for (int s = 0; s < STEPS; ++s) {
        using Pair = warpwise::Vector<float, 2>;
        const Pair x = *reinterpret_cast<const Pair*>(x_tile + (own + group) * kStride + 8 * s + 2 * index);
        const unsigned b0 = __float_as_uint(x.at[0]), b1 = __float_as_uint(x.at[1]);
        const unsigned rest0 = warpwise::rest_of_tf32(x.at[0]), rest1 = warpwise::rest_of_tf32(x.at[1]);
        unsigned large[TILES][4];
#pragma unroll
        for (int m = 0; m < TILES; ++m) {
          const warpwise::Float4 c =
              *reinterpret_cast<const warpwise::Float4*>(coefficients + (s * TILES + m) * 128 + 4 * lane);
          unsigned small[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            large[m][i] = __float_as_uint(c.at[i]);
            small[i] = warpwise::rest_of_tf32(c.at[i]);
          }
          warpwise::mma::mma_sync(scores[m], small, b0, b1, 0.0f);
        }
#pragma unroll
        for (int m = 0; m < TILES; ++m) warpwise::mma::mma_sync(scores[m], large[m], rest0, rest1, 0.0f);
#pragma unroll
        for (int m = 0; m < TILES; ++m) warpwise::mma::mma_sync(scores[m], large[m], b0, b1, 0.0f);
      }

#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int place = 2 * index + j, point = first + own + place;
        const bool inside = point < end;
        float around[TILES][2] = {};
        {  // sums of neighbours
          const int* const edges = edge_tiles + (side * kTile + own + place) * kEdges;
          const int first_edge = __shfl_sync(kAllLanes, start, place);
          const int edges_of_point = __shfl_sync(kAllLanes, degree, place);
          const auto add_edges = [&](auto all, int n) {  // edges n to n + FLIGHT
            float values[FLIGHT][TILES][2];
#pragma unroll
            for (int e = 0; e < FLIGHT; ++e) rows.load(values[e], edges[n + e], all || edges[n + e] >= 0);
#pragma unroll
            for (int e = 0; e < FLIGHT; ++e) {
              const float weight = weights && (all || edges[n + e] >= 0) ? weights[first_edge + n + e] : 1.0f;
              rows.add(around, weight, values[e]);
            }
          };
          if (full) {
#pragma unroll
            for (int n = 0; n < kEdges; n += FLIGHT) add_edges(True(), n);
          } else {
#pragma unroll 1
            for (int n = 0; n < kEdges; n += FLIGHT) add_edges(False(), n);
          }
          for (int n = kEdges; many && n < edges_of_point; ++n) {
            float values[TILES][2];
            rows.load(values, columns[first_edge + n], true);
            rows.add(around, weights ? weights[first_edge + n] : 1.0f, values);
          }
        }
        if (kOwn && j == 0) fetch_tile(side ^ 1, next, next_end);
        if (near && inside)
          Lane::store(near + static_cast<long long>(point - near_begin) * row + restart * domains, around, group,
                      domains);

        const auto field_of = [&](int m, int h) {
          float field = fields[(8 * m + group) * 2 + h];
          if (FIELDS) {
            const int k = Lane::domain(m, group, h);
            const float* const from = external + min(point, end - 1) * external_row + restart * external_restart;
            field += k < domains ? kLog2E * from[k] : 0.0f;
          }
          return field;
        };
        float highest = warpwise::minus_infinity();
#pragma unroll
        for (int m = 0; m < TILES; ++m) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            float& score = scores[m][2 * h + j];
            const float offset = offsets[(8 * m + group) * 2 + h] + (FIELDS ? field_of(m, h) : 0.0f);
            score += strength * around[m][h] + offset;
            highest = fmaxf(highest, score);
          }
        }
        highest = groups_max(highest);

        if (derivatives) {
          float sum = 0.0f, mean = 0.0f, square = 0.0f;
          const auto add_prior = [&](auto shifted, float shift) {
#pragma unroll
            for (int m = 0; m < TILES; ++m) {
#pragma unroll
              for (int h = 0; h < 2; ++h) {
                const float prior = strength * around[m][h] + field_of(m, h);
                const float p = exp2_ftz(shifted ? prior - shift : prior), part = p * around[m][h];
                sum += p;
                mean += part;
                square += part * around[m][h];
              }
            }
          };
          add_prior(False(), 0.0f);
          sum = groups_sum(sum);
          if (__any_sync(kAllLanes, !(sum > 1.0f / kSafe && sum < kSafe))) {
            float shift = warpwise::minus_infinity();
#pragma unroll
            for (int m = 0; m < TILES; ++m) {
#pragma unroll
              for (int h = 0; h < 2; ++h) shift = fmaxf(shift, strength * around[m][h] + field_of(m, h));
            }
            sum = mean = square = 0.0f;
            add_prior(True(), groups_max(shift));
            sum = groups_sum(sum);
          }
          const float scale = inside ? __fdividef(1.0f, sum) : 0.0f;
          gradient -= mean * scale;  // the lane's part
          mean = groups_sum(mean) * scale;
          curvature += square * scale - (group == 0 ? mean * mean : 0.0f);
        }

        float total = 0.0f, observed = 0.0f;
#pragma unroll
        for (int m = 0; m < TILES; ++m) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            float& score = scores[m][2 * h + j];
            score = exp2_ftz(score - highest);
            total += score;
            observed += score * around[m][h];
          }
        }
        total = groups_sum(total);
        const float scale = inside ? __fdividef(1.0f, total) : 0.0f;
        gradient += observed * scale;
#pragma unroll
        for (int m = 0; m < TILES; ++m) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            around[m][h] = scores[m][2 * h + j] *= scale;
            count[m][h] += around[m][h];
          }
        }
        if (inside) Lane::store(q + static_cast<long long>(point) * row + restart * domains, around, group, domains);
      }

      if (!kOwn) {
        float* const to = q_tiles + (side * TILES * WARPS + warp) * 128 + 4 * lane;
#pragma unroll
        for (int m = 0; m < TILES; ++m) {
          *reinterpret_cast<float4*>(to + m * WARPS * 128) =
              make_float4(scores[m][0], scores[m][2], scores[m][1], scores[m][3]);
        }
        __syncthreads();  // all warps have also read the other tiles
        fetch_tile(side ^ 1, next, next_end);
      }
      float local[MI][NI][4] = {};
#pragma unroll 1
      for (int part = 0; part < kSharing; ++part) {  // eight points each
        const int of = warp / kSharing * kSharing + part;
        unsigned x[NI][2], rest[NI][2];
#pragma unroll
        for (int n = 0; n < NI; ++n) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const int step = kOwn ? n : min(first_n + n, STEPS - 1);  // of a step past the last: not used
            const float value = x_tile[(of * kPoints + 2 * index + i) * kStride + 8 * step + group];
            x[n][i] = __float_as_uint(value);
            rest[n][i] = warpwise::rest_of_tf32(value);
          }
        }
#pragma unroll
        for (int m = 0; m < MI; ++m) {
          warpwise::Float4 a;
          if (kOwn) {
#pragma unroll
            for (int i = 0; i < 4; ++i) a.at[i] = scores[m][i % 2 * 2 + i / 2];
          } else {
            const int tile = min(first_m + m, TILES - 1);
            a = *reinterpret_cast<const warpwise::Float4*>(q_tiles + ((side * TILES + tile) * WARPS + of) * 128 +
                                                           4 * lane);
          }
          unsigned large[4], small[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            large[i] = __float_as_uint(a.at[i]);
            small[i] = warpwise::rest_of_tf32(a.at[i]);
          }
#pragma unroll
          for (int product = 0; product < 3; ++product) {  // adjacent instructions add to different sums
#pragma unroll
            for (int n = 0; n < NI; ++n) {
              const unsigned* const b = product == 1 ? rest[n] : x[n];
              warpwise::mma::mma_sync(kOwn ? moments[m][n] : local[m][n], product == 0 ? small : large, b[0], b[1],
                                      0.0f);
            }
          }
        }
      }
      if (!kOwn) {
#pragma unroll
        for (int m = 0; m < MI; ++m) {
#pragma unroll
          for (int n = 0; n < NI; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) moments[m][n][i] += local[m][n][i];
          }
        }
      }
      side ^= 1;
      if (kOwn && ++unflushed == kTilesBeforeFlush) flush();
    }
  }
  __pipeline_wait_prior(0);

  __syncthreads();
  flush();
  float* const own_others = others + warp * kOthers * 32 + lane;
#pragma unroll
  for (int m = 0; m < TILES; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {  // over the points, of which four lanes have two each
      count[m][h] += __shfl_xor_sync(kAllLanes, count[m][h], 1);
      own_others[(2 * m + h) * 32] = count[m][h] + __shfl_xor_sync(kAllLanes, count[m][h], 2);
    }
  }
  own_others[(kOthers - 2) * 32] = team_sum<32>(gradient);
  own_others[(kOthers - 1) * 32] = team_sum<32>(curvature);
  __syncthreads();
  float* const own_partials = partials + (static_cast<long long>(blockIdx.x) * restarts + restart) * 32 * kSlots;
  for (int i = threadIdx.x; i < 32 * kSlots; i += kThreads) {
    const bool moment = i < 32 * kMoments;
    const float* const from = moment ? sums_of_parts + i : others + i - 32 * kMoments;
    float total = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
      if (w < kParts || !moment) total += from[w * 32 * (moment ? kMoments : kOthers)];
    }
    own_partials[i] = total;
  }

  // Of a slot's 32 sums a warp adds every WARPS-th block's.
  cooperative_groups::this_grid().sync();
  for (int slot = blockIdx.x; slot < kSlots; slot += gridDim.x) {
    float total = 0.0f;
    for (int first = warp; first < gridDim.x; first += kRows * WARPS) {
      float rows_of[kRows];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const int block = first + i * WARPS;
        const long long at = (static_cast<long long>(block) * restarts + restart) * kSlots + slot;
        rows_of[i] = block < gridDim.x ? partials[32 * at + lane] : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < kRows; ++i) total += rows_of[i];
    }
    __syncthreads();
    shared[threadIdx.x] = total;
    __syncthreads();
    if (warp > 0) continue;
    total = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) total += shared[32 * w + lane];
    const int counted = slot - kMoments, slope = counted - 2 * TILES;
    if (counted < 0) {
      const int k = Lane::domain(slot / (4 * STEPS), group, slot % 4 / 2),
                d = slot / 4 % STEPS * 8 + 2 * index + slot % 2;
      if (k < domains && d < width) sums[(static_cast<long long>(restart) * domains + k) * width + d] = total;
    } else if (slope < 0) {
      const int k = Lane::domain(counted / 2, group, counted % 2);
      if (index == 0 && k < domains) counts[restart * domains + k] = total;
    } else if (derivatives && lane == 0) {
      derivatives[slope * restarts + restart] = total;
    }
  }
}
