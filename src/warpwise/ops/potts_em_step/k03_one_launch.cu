// One cooperative launch for all colours, a tile of 32 points for each warp, and moments by tensor cores.
//
// Between two colours the grid synchronises; the features, the row pointers and the columns of a warp's next tile,
// which do not depend on q, are loaded before. Within a colour a warp waits for no other. A lane has all domains of a
// point, or a team of lanes shares them, and loads eight neighbours before it adds the first. Scores are FMAs whose
// coefficients all points read together. The moments sum_i x_i q_i are products of (width, 32) with (32, domains): x
// and q are each the sum of two TF32 numbers, and three of the four products are added, which keeps float32's accuracy.
// A warp keeps its moments in registers over all colours; at the end the grid adds those of its blocks in a fixed
// order.

#include <cooperative_groups.h>
#include <warpwise/sm80/copy_rows.cuh>
#include <warpwise/sm80/tf32.cuh>

#include "colours.cuh"

constexpr int kThreads = 128, kWarps = kThreads / 32;
constexpr int kEdges = 8;  // per point, in flight

// Points per tile of a warp. With more than 32 features as many as its lanes take at once, so that more warps fit on an
// SM.
constexpr int tile_points(int lanes, int rows) { return rows > 2 ? 32 / lanes : 32; }

// Limited by the registers of a lane: four sums per tile of 16 features x 8 domains, and the neighbours in flight.
constexpr int blocks_an_sm(int tiles) { return tiles > 8 ? 3 : 4; }

// Colour by colour, rows of q: (n, restarts, domains) are replaced by softmax(temper * score + beta * near + external),
// near = sum_j w_ij q_j. Their scores are features: (n, width) times linear: (restarts, domains, width), plus constant:
// (restarts, domains). external: rows of domains, external_row apart from point to point, external_restart from restart
// to restart. weights and near: (rows from that of the first colour on, restarts, domains) may be null.
//
// sums: (restarts, domains, width) of q x, counts: (restarts, domains) of q, and derivatives: (2, restarts) of the
// pseudo-likelihood for beta, or null. partials: (restarts, size, gridDim.x), size = domains * width + domains + 2 =
// these sums of each block. Cooperative grid: (blocks, restarts) of kThreads. LANES * QUADS * 4 is at least domains,
// and equal to it if FULL; ROWS * 16 is at least width. VECTOR: domains is a multiple of 4, and q, external and near
// are aligned to 16 bytes. Shared: see warp_tile_of in tiles.py.
template <int LANES, int QUADS, int ROWS, bool VECTOR, bool FULL>
__global__ void __launch_bounds__(kThreads, blocks_an_sm(ROWS*((LANES * QUADS + 1) / 2))) potts_em_step_one_launch(
    float* q, const float* features, const float* linear, const float* constant, const int* rowptr, const int* columns,
    const float* weights, const float* beta, const float* external, float* partials, float* sums, float* counts,
    float* derivatives, float* near, Colours colours, int restarts, int domains, int width, long long external_row,
    long long external_restart, float temper) {
  extern __shared__ __align__(16) float shared[];
  constexpr int kDomains = 4 * LANES * QUADS, kColumns = (LANES * QUADS + 1) / 2;  // tiles of 8 domains
  constexpr int kOwn = 4 * QUADS, kQStride = warpwise::tile_stride(8 * kColumns);
  constexpr int kPass = 32 / LANES;  // points at a time
  constexpr int kTile = tile_points(LANES, ROWS);
  const int restart = blockIdx.y, stride = warpwise::tile_stride(width), row = restarts * domains;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, part = lane % LANES;
  float* const coefficients = shared;
  float* const constants = coefficients + kDomains * stride;
  float* const q_tile = constants + kDomains + warp * kTile * (kQStride + 2 * stride);
  float* const tiles = q_tile + kTile * kQStride;
  const auto domain_of = [=](int u) { return 4 * (part + LANES * u); };  // the first of quad u

  warpwise::load_rows(coefficients, linear + static_cast<long long>(restart) * domains * width, domains, width, 0,
                      kDomains, stride);
  for (int k = threadIdx.x; k < kDomains; k += kThreads) {
    constants[k] = k < domains ? constant[restart * domains + k] : 0.0f;
  }
  for (int i = lane; i < kTile * kQStride; i += 32) q_tile[i] = 0.0f;
  __syncthreads();

  const float strength = beta[restart], sharpness = kLog2E * temper;
  const warpwise::WarpCopy<kTile> copy(features, width);
  const int group = lane / 4, index = lane % 4;
  float moments[ROWS][kColumns][4] = {};
  float count[kOwn] = {}, gradient = 0.0f, curvature = 0.0f;

  const int step = gridDim.x * kWarps * kTile, near_begin = colours.ends[0];
  int next_start = 0, next_stop = 0;       // of the edges of point `lane` of the next tile
  int edge = 0, last = 0, column[kEdges];  // of the team's point, and its first neighbours
  const auto first_of = [&](int colour) { return colours.ends[colour] + (blockIdx.x * kWarps + warp) * kTile; };
  const auto fetch = [&](int from, int end, int buffer) {
    next_start = next_stop = 0;
    if (from < end) {
      copy(tiles + buffer * kTile * stride, from, end);
      next_start = rowptr[min(from + lane, end)];
      next_stop = rowptr[min(from + lane + 1, end)];
    }
    __pipeline_commit();
  };
  const auto load_columns = [&](int place, int starts, int stops) {
    edge = LANES > 1 ? __shfl_sync(kAllLanes, starts, place) : starts;
    last = LANES > 1 ? __shfl_sync(kAllLanes, stops, place) : stops;
#pragma unroll
    for (int n = 0; n < kEdges; ++n) column[n] = edge + n < last ? __ldcs(columns + edge + n) : -1;
  };
  fetch(first_of(0), colours.ends[1], 0);
  load_columns(lane / LANES, next_start, next_stop);

  int buffer = 0;
  for (int colour = 0; colour < colours.count; ++colour) {
    const int end = colours.ends[colour + 1];
    const bool final = colour + 1 == colours.count;
    const int later = final ? 0 : first_of(colour + 1), later_end = final ? 0 : colours.ends[colour + 2];
    int first = first_of(colour);
    if (first >= end) {
      fetch(later, later_end, buffer);
      load_columns(lane / LANES, next_start, next_stop);
    }
    if (colour > 0) cooperative_groups::this_grid().sync();
    for (; first < end; first += step, buffer ^= 1) {
      const int start = next_start, stop = next_stop;
      const bool more = end - first > step;
      fetch(more ? first + step : later, more ? end : later_end, buffer ^ 1);
      __pipeline_wait_prior(1);
      __syncwarp();
      const float* const tile = tiles + buffer * kTile * stride;

#pragma unroll 1
      for (int base = 0; base < kTile; base += kPass) {
        const int place = base + lane / LANES, point = first + place;
        const bool inside = point < end;
        const int here = inside ? domains : 0;  // 0 for a point past the end
        const long long at = static_cast<long long>(point) * row + restart * domains;
        float support[kOwn] = {};
        const float* const neighbours = q + restart * domains;
        while (true) {
#pragma unroll
          for (int n = 0; n < kEdges; ++n) {
            const float* const from = neighbours + static_cast<long long>(column[n]) * row;
            const float weight = weights && column[n] >= 0 ? weights[edge + n] : 1.0f;
#pragma unroll
            for (int u = 0; u < QUADS; ++u) {
              const int valid = FULL ? 4 : domains - domain_of(u);
              const warpwise::Float4 values = warpwise::load4<VECTOR>(from + domain_of(u), column[n] >= 0 ? valid : 0);
#pragma unroll
              for (int e = 0; e < 4; ++e) support[4 * u + e] += weight * values.at[e];
            }
          }
          edge += kEdges;
          if (edge >= last) break;
#pragma unroll
          for (int n = 0; n < kEdges; ++n) column[n] = edge + n < last ? __ldcs(columns + edge + n) : -1;
        }

        float scores[kOwn];
#pragma unroll
        for (int e = 0; e < kOwn; ++e) scores[e] = constants[domain_of(e / 4) + e % 4];
#pragma unroll 4
        for (int d = 0; d < width; d += 4) {
          const warpwise::Float4 x = *reinterpret_cast<const warpwise::Float4*>(tile + place * stride + d);
#pragma unroll
          for (int e = 0; e < kOwn; ++e) {
            const warpwise::Float4 c =
                *reinterpret_cast<const warpwise::Float4*>(coefficients + (domain_of(e / 4) + e % 4) * stride + d);
#pragma unroll
            for (int j = 0; j < 4; ++j) scores[e] += x.at[j] * c.at[j];
          }
        }

        // In units of log 2.
        float prior[kOwn];
        float highest = warpwise::minus_infinity(), highest_prior = warpwise::minus_infinity();
        const auto exists = [=](int i) { return FULL || domain_of(i / 4) + i % 4 < domains; };
#pragma unroll
        for (int u = 0; u < QUADS; ++u) {
          if (near && here > domain_of(u)) {
            warpwise::store4<VECTOR>(near + at - static_cast<long long>(near_begin) * row + domain_of(u),
                                     support + 4 * u, domains - domain_of(u));
          }
          const warpwise::Float4 field = warpwise::load4<VECTOR>(
              external + point * external_row + restart * external_restart + domain_of(u), here - domain_of(u));
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int i = 4 * u + e;
            prior[i] = exists(i) ? kLog2E * (strength * support[i] + field.at[e]) : warpwise::minus_infinity();
            scores[i] = sharpness * scores[i] + prior[i];
            highest = fmaxf(highest, scores[i]);
            highest_prior = fmaxf(highest_prior, prior[i]);
          }
        }
        highest = team_max<LANES>(highest);
        float total = 0.0f;
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
          scores[i] = exp2_ftz(scores[i] - highest);
          total += scores[i];
        }
        total = team_sum<LANES>(total);
        const float scale = inside ? 1.0f / total : 0.0f;
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
          scores[i] *= scale;
          count[i] += scores[i];
        }
#pragma unroll
        for (int u = 0; u < QUADS; ++u) {
          if (here > domain_of(u)) {
            warpwise::store4<VECTOR>(q + at + domain_of(u), scores + 4 * u, domains - domain_of(u));
          }
          *reinterpret_cast<warpwise::Float4*>(q_tile + place * kQStride + domain_of(u)) = {
              scores[4 * u], scores[4 * u + 1], scores[4 * u + 2], scores[4 * u + 3]};
        }
        if (derivatives) {
          highest_prior = team_max<LANES>(highest_prior);
          float sum = 0.0f, mean = 0.0f, square = 0.0f, observed = 0.0f;
#pragma unroll
          for (int i = 0; i < kOwn; ++i) {
            const float p = exp2_ftz(prior[i] - highest_prior);
            sum += p;
            mean += p * support[i];
            square += p * support[i] * support[i];
            observed += scores[i] * support[i];
          }
          sum = 1.0f / team_sum<LANES>(sum);
          mean = team_sum<LANES>(mean) * sum;
          square = team_sum<LANES>(square) * sum;
          observed = team_sum<LANES>(observed);
          if (inside && part == 0) {
            gradient += observed - mean;
            curvature += square - mean * mean;
          }
        }
        const bool behind = base + kPass == kTile;
        load_columns(behind ? lane / LANES : place + kPass, behind ? next_start : start, behind ? next_stop : stop);
      }
      __syncwarp();

      // Index t of the fragments' inner dimension is point 2 t, index t + 4 is point 2 t + 1: no bank conflicts.
#pragma unroll
      for (int p = 2 * index; p < kTile; p += 8) {
        float values[kColumns][2];
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
#pragma unroll
          for (int i = 0; i < 2; ++i) values[c][i] = q_tile[(p + i) * kQStride + 8 * c + group];
        }
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
          unsigned large[4], small[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int d = min(16 * r + group + i % 2 * 8, width - 1);  // sums of rows past the width are not used
            const float x = tile[(p + i / 2) * stride + d];
            large[i] = __float_as_uint(x);
            small[i] = warpwise::rest_of_tf32(x);
          }
#pragma unroll
          for (int c = 0; c < kColumns; ++c) {
            const unsigned b0 = __float_as_uint(values[c][0]), b1 = __float_as_uint(values[c][1]);
            warpwise::mma::mma_sync(moments[r][c], small, b0, b1, 0.0f);
            warpwise::mma::mma_sync(moments[r][c], large, warpwise::rest_of_tf32(values[c][0]),
                                    warpwise::rest_of_tf32(values[c][1]), 0.0f);
            warpwise::mma::mma_sync(moments[r][c], large, b0, b1, 0.0f);
          }
        }
      }
      __syncwarp();  // the tile has been read: the next copy may overwrite it
    }
  }
  __pipeline_wait_prior(0);

  const int size = domains * width + domains + 2;
  constexpr int kMoments = 16 * ROWS * 8 * kColumns, kSums = kMoments + kDomains + 2;
  __syncthreads();
  float* const own_sums = shared + warp * kSums;  // moments (features, domains), counts and derivatives of the warp
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        own_sums[(16 * r + group + i / 2 * 8) * 8 * kColumns + 8 * c + 2 * index + i % 2] = moments[r][c][i];
      }
    }
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    if (distance >= LANES) {
#pragma unroll
      for (int i = 0; i < kOwn; ++i) count[i] += __shfl_xor_sync(kAllLanes, count[i], distance);
    }
    gradient += __shfl_xor_sync(kAllLanes, gradient, distance);
    curvature += __shfl_xor_sync(kAllLanes, curvature, distance);
  }
  if (lane < LANES) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) own_sums[kMoments + domain_of(i / 4) + i % 4] = count[i];
  }
  if (lane == 0) {
    own_sums[kMoments + kDomains] = gradient;
    own_sums[kMoments + kDomains + 1] = curvature;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < size; i += kThreads) {
    const int domain = i / width, column = i - domain * width, behind = i - domains * width;
    const int from = behind < 0         ? column * 8 * kColumns + domain
                     : behind < domains ? kMoments + behind
                                        : kMoments + kDomains + behind - domains;
    float total = 0.0f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) total += shared[w * kSums + from];
    partials[(static_cast<long long>(restart) * size + i) * gridDim.x + blockIdx.x] = total;
  }

  cooperative_groups::this_grid().sync();
  for (int i = blockIdx.x * kWarps + warp; i < size; i += gridDim.x * kWarps) {
    const float* const from = partials + (static_cast<long long>(restart) * size + i) * gridDim.x;
    float total = 0.0f;
#pragma unroll 8
    for (int block = lane; block < gridDim.x; block += 32) total += from[block];
    total = team_sum<32>(total);
    const int moment = domains * width, slope = i - moment - domains;
    if (lane > 0) continue;
    if (i < moment) {
      sums[static_cast<long long>(restart) * moment + i] = total;
    } else if (slope < 0) {
      counts[restart * domains + i - moment] = total;
    } else if (derivatives) {
      derivatives[slope * restarts + restart] = total;
    }
  }
}
