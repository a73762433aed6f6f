// Scores by tensor cores too, and moments shared by the warps of a block: for many domains and features.
//
// With K domains and D features k03 needs K * D moments in the registers of each warp, and an FMA of a coefficient from
// shared memory for each of the K * D products of a point. Here a block has one tile of points. A warp sums the
// neighbours of its 8 or 16 points, with adjacent lanes at adjacent domains, into the tile of q in shared memory. Then
// it multiplies (domains, width) coefficients with (width, points) features. A lane gets the scores of two points,
// reads their sums of neighbours, and writes q over them. The moments q^T x are divided by domains, features and points
// among the warps. All products add three of the four products of TF32 pairs, which keeps float32's accuracy.

#include <cooperative_groups.h>
#include <warpwise/sm80/copy_rows.cuh>
#include <warpwise/sm80/tf32.cuh>

#include "colours.cuh"

constexpr int kEdges = 8;  // per point, in flight

// Floats that a lane loads before it adds the first: as many as the registers of `tiles` tiles of moments leave.
constexpr int flight(int tiles) { return tiles > 4 ? 32 : 64; }

// The lanes that share a point, so that each has at least one of `units`.
constexpr int lanes_of(int units) { return units > 16 ? 32 : units > 8 ? 16 : units > 4 ? 8 : 4; }
constexpr int passes_of(int wanted, int most) { return wanted < 1 ? 1 : wanted < most ? wanted : most; }

// VEC adjacent floats that all exist, or zeros if not `valid`.
template <int VEC>
__device__ inline warpwise::Vector<float, VEC> load_if(const float* from, bool valid) {
  warpwise::Vector<float, VEC> values = {};
  if (valid) values = *reinterpret_cast<const warpwise::Vector<float, VEC>*>(from);
  return values;
}

// The domain of row `row` (0 to 15) of tile m of TILES tiles of 16. A lane, which has rows g and g + 8 of each, so has
// groups of VEC adjacent domains, and eight lanes have adjacent groups. The last of an odd number of tiles has pairs.
template <int TILES, int VEC>
__device__ constexpr int domain_of(int m, int row) {
  const int g = row % 8, i = row / 8 + m % 2 * 2;  // the i-th of the four of two tiles
  if (VEC == 1) return 16 * m + row;
  if (m % 2 == 0 && m + 1 == TILES) return 16 * m + 2 * g + i;
  return VEC == 2 ? 32 * (m / 2) + 16 * (i / 2) + 2 * g + i % 2 : 32 * (m / 2) + 4 * g + i;
}

// Elements domain_of(m, group) and domain_of(m, group + 8), which are adjacent if VEC > 1.
template <int TILES, int VEC>
__device__ inline warpwise::Vector<float, 2> load_pair(const float* from, int m, int group) {
  from += domain_of<TILES, VEC>(m, group);
  if (VEC > 1) return *reinterpret_cast<const warpwise::Vector<float, 2>*>(from);
  return {from[0], from[8]};
}

// The sum, and the maximum, over the eight lanes that have one index in their groups.
__device__ inline float groups_sum(float value) {
#pragma unroll
  for (int distance = 4; distance < 32; distance *= 2) value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}

__device__ inline float groups_max(float value) {
#pragma unroll
  for (int distance = 4; distance < 32; distance *= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

// The arguments are those of potts_em_step_one_launch (k03), except partials: (gridDim.x, restarts, domains * width +
// domains + 2). TILES * 16 is at least domains. VEC divides domains, and q, external and near are aligned to VEC
// floats. A warp has eight points of a tile. The moments are tiles of 16 domains x 8 features: a warp has up to 2 x NI,
// kWarpsM * WARPS_N warps, a power of two up to WARPS, have all of them, and each such group of warps adds its part of
// the points. FIELDS: external_row is not 0. Cooperative grid: (blocks, restarts) of 32 * WARPS. Shared: see
// block_tile_of in rungs.py.
template <int WARPS, int TILES, int NI, int WARPS_N, int VEC, bool FIELDS>
__global__ void __launch_bounds__(32 * WARPS, 16 / WARPS) potts_em_step_tensor_scores(
    float* q, const float* features, const float* linear, const float* constant, const int* rowptr, const int* columns,
    const float* weights, const float* beta, const float* external, float* partials, float* sums, float* counts,
    float* derivatives, float* near, Colours colours, int restarts, int domains, int width, long long external_row,
    long long external_restart, float temper) {
  extern __shared__ __align__(16) float shared[];
  constexpr int kWarps = WARPS, kThreads = 32 * WARPS, kHeld = 16 * TILES;
  constexpr int MI = TILES > 1 ? 2 : 1, kWarpsM = TILES > 4 ? 4 : TILES > 2 ? 2 : 1;
  constexpr int kOwn = 8, kTile = kWarps * kOwn;                            // points of a warp and of a block
  constexpr int kLanes = lanes_of(16 * TILES / VEC), kTeams = 32 / kLanes;  // lanes of a point in sums of neighbours
  constexpr int kUnits = (16 * TILES + kLanes * VEC - 1) / (kLanes * VEC);  // of VEC domains of such a lane
  constexpr int kPasses = passes_of(flight(MI * NI) / (kUnits * VEC * kEdges), kOwn / kTeams);  // in flight
  using Unit = warpwise::Vector<float, VEC>;
  using Pair = warpwise::Vector<float, 2>;
  const int restart = blockIdx.y, row = restarts * domains;
  constexpr int q_stride = warpwise::tile_stride(kHeld);
  const int tiles_of_width = (width + 7) / 8, stride = warpwise::tile_stride(8 * tiles_of_width),
            chunks = (width + 15) / 16;
  float* const coefficients = shared;
  float* const constants = coefficients + 16 * kHeld * chunks;
  float* const fields = constants + kHeld;
  float* const q_tile = fields + kHeld;
  float* const tile = q_tile + kTile * q_stride;
  const int warp = __shfl_sync(kAllLanes, threadIdx.x / 32, 0), lane = threadIdx.x % 32, group = lane / 4,
            index = lane % 4;

  const float strength = kLog2E * beta[restart], sharpness = kLog2E * temper;
  // Fragments: element i of lane l in half h of a chunk of tile m is [chunk][m][h][l][i].
  for (int i = threadIdx.x; i < 16 * kHeld * chunks; i += kThreads) {
    const int element = i % 4, of = i / 4 % 32, half = i / 128 % 2, m = i / 256 % TILES, chunk = i / (256 * TILES);
    const int k = domain_of<TILES, VEC>(m, of / 4 + element % 2 * 8);
    const int d = 16 * chunk + of % 4 * 4 + 2 * half + element / 2;
    const bool exists = k < domains && d < width;
    coefficients[i] = exists ? linear[(static_cast<long long>(restart) * domains + k) * width + d] : 0.0f;
  }
  for (int k = threadIdx.x; k < kHeld; k += kThreads) {  // in units of log 2
    constants[k] = k < domains ? sharpness * constant[restart * domains + k] : 0.0f;
    fields[k] = k >= domains ? warpwise::minus_infinity()
                : FIELDS     ? 0.0f
                             : kLog2E * external[restart * external_restart + k];
  }
  for (int i = threadIdx.x; i < kTile * (q_stride + stride) + 8; i += kThreads) q_tile[i] = 0.0f;  // also the padding
  __syncthreads();

  warpwise::WarpCopy<kOwn> copy(features, width);
  copy.stride = stride;
  float* const own_q = q_tile + warp * kOwn * q_stride;
  float* const own_tile = tile + warp * kOwn * stride;
  int* const own_edges = reinterpret_cast<int*>(tile + kTile * stride + 8) + warp * kOwn * kEdges;

  // Of the moments: the warp's first tiles, and its steps of eight points.
  constexpr int kSharing = kWarpsM * WARPS_N, kParts = kWarps / kSharing;
  const int first_m = warp % kWarpsM * MI, first_n = warp / kWarpsM % WARPS_N * NI;
  const int first_step = warp / kSharing * kSharing;
  const auto meet = [=] {
    if (kSharing > 1)
      __syncthreads();
    else
      __syncwarp();
  };
  float moments[MI][NI][4] = {}, count[MI][2] = {};
  float gradient = 0.0f, curvature = 0.0f;

  const int step = gridDim.x * kTile, near_begin = colours.ends[0];
  const int part = lane % kLanes, team = lane / kLanes;
  int next_start = 0, next_stop = 0;  // of the edges of point `lane` of the next tile
  const auto first_of = [&](int colour) { return colours.ends[colour] + static_cast<int>(blockIdx.x) * kTile; };
  const auto fetch_rows = [&](int from, int end) {
    from += warp * kOwn;
    next_start = next_stop = 0;
    if (from < end) {
      next_start = rowptr[min(from + lane, end)];
      next_stop = rowptr[min(from + lane + 1, end)];
    }
  };
  // The neighbours by the first edges of each point, or -1.
  const auto fetch_edges = [&] {
#pragma unroll
    for (int i = lane; i < kOwn * kEdges; i += 32) {
      const int edge = __shfl_sync(kAllLanes, next_start, i / kEdges) + i % kEdges;
      const bool valid = edge < __shfl_sync(kAllLanes, next_stop, i / kEdges);
      if (valid)
        warpwise::mma::cp_async<4>(warpwise::shared_address(own_edges + i), columns + edge, true);
      else
        own_edges[i] = -1;
    }
    __pipeline_commit();
  };
  const auto fetch_features = [&](int from, int end) {
    copy(own_tile, from + warp * kOwn, end);
    __pipeline_commit();
  };
  fetch_rows(first_of(0), colours.ends[1]);
  fetch_edges();
  fetch_features(first_of(0), colours.ends[1]);

  for (int colour = 0; colour < colours.count; ++colour) {
    const int end = colours.ends[colour + 1];
    const bool final = colour + 1 == colours.count;
    const int later = final ? 0 : first_of(colour + 1), later_end = final ? 0 : colours.ends[colour + 2];
    int first = first_of(colour);
    if (first >= end) {
      fetch_rows(later, later_end);
      __pipeline_wait_prior(0);
      __syncwarp();
      fetch_edges();
      fetch_features(later, later_end);
    }
    if (colour > 0) cooperative_groups::this_grid().sync();
    for (; first < end; first += step) {
      const int start = next_start, stop = next_stop;
      const bool more = end - first > step;
      const int next = more ? first + step : later, next_end = more ? end : later_end;
      fetch_rows(next, next_end);
      const int own = first + warp * kOwn;

      // Sums of neighbours.
      __pipeline_wait_prior(1);
      __syncwarp();
      const bool many = __any_sync(kAllLanes, lane < kOwn && stop - start > kEdges);
#pragma unroll 1
      for (int base = 0; base < kOwn; base += kPasses * kTeams) {
        Unit values[kPasses][kUnits][kEdges];
        const float* const neighbours = q + restart * domains + VEC * part;
#pragma unroll
        for (int pass = 0; pass < kPasses; ++pass) {
          const int* const edges = own_edges + (base + pass * kTeams + team) * kEdges;
#pragma unroll
          for (int n = 0; n < kEdges; ++n) {
            const int neighbour = edges[n];
            const float* const from = neighbours + static_cast<unsigned long long>(static_cast<unsigned>(neighbour)) *
                                                       static_cast<unsigned>(row);
#pragma unroll
            for (int u = 0; u < kUnits; ++u) {
              const bool valid = neighbour >= 0 && VEC * (part + kLanes * u) < domains;
              values[pass][u][n] = load_if<VEC>(from + VEC * kLanes * u, valid);
            }
          }
        }
#pragma unroll
        for (int pass = 0; pass < kPasses; ++pass) {
          const int place = base + pass * kTeams + team, point = own + place;
          float support[kUnits][VEC] = {};
          const int edge = __shfl_sync(kAllLanes, start, place);
          const int last = __shfl_sync(kAllLanes, stop, place);
#pragma unroll
          for (int n = 0; n < kEdges; ++n) {
            const float weight = weights && edge + n < last ? weights[edge + n] : 1.0f;
#pragma unroll
            for (int u = 0; u < kUnits; ++u) {
#pragma unroll
              for (int e = 0; e < VEC; ++e) support[u][e] += weight * values[pass][u][n].at[e];
            }
          }
          for (int n = edge + kEdges; many && n < last; ++n) {
            const float* const from = neighbours + static_cast<long long>(columns[n]) * row;
            const float weight = weights ? weights[n] : 1.0f;
#pragma unroll
            for (int u = 0; u < kUnits; ++u) {
              const Unit value = load_if<VEC>(from + VEC * kLanes * u, VEC * (part + kLanes * u) < domains);
#pragma unroll
              for (int e = 0; e < VEC; ++e) support[u][e] += weight * value.at[e];
            }
          }
#pragma unroll
          for (int u = 0; u < kUnits; ++u) {
            const int domain = VEC * (part + kLanes * u);
            if (domain >= domains) continue;
            Unit unit;
#pragma unroll
            for (int e = 0; e < VEC; ++e) unit.at[e] = support[u][e];
            *reinterpret_cast<Unit*>(own_q + place * q_stride + domain) = unit;
            if (near && point < end) {
              const long long at = static_cast<long long>(point - near_begin) * row + restart * domains;
              *reinterpret_cast<Unit*>(near + at + domain) = unit;
            }
          }
        }
      }
      __syncwarp();
      fetch_edges();
      __pipeline_wait_prior(1);
      __syncwarp();

      // Index t of the fragments' inner dimension is feature 4 t + 2 h, and t + 4 the next one, in half h of a chunk.
      float scores[TILES][4] = {};
#pragma unroll 1
      for (int chunk = 0; chunk < chunks; ++chunk) {
        const int d = 16 * chunk + 4 * index;
        const warpwise::Float4 x = load_if<4>(own_tile + group * stride + d, d < width);
        unsigned rest_of_x[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) rest_of_x[e] = warpwise::rest_of_tf32(x.at[e]);
#pragma unroll
        for (int m = 0; m < TILES; ++m) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const warpwise::Float4 c = *reinterpret_cast<const warpwise::Float4*>(
                coefficients + ((chunk * TILES + m) * 2 + h) * 128 + 4 * lane);
            unsigned large[4], small[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              large[i] = __float_as_uint(c.at[i]);
              small[i] = warpwise::rest_of_tf32(c.at[i]);
            }
            const unsigned b0 = __float_as_uint(x.at[2 * h]), b1 = __float_as_uint(x.at[2 * h + 1]);
            warpwise::mma::mma_sync(scores[m], small, b0, b1, 0.0f);
            warpwise::mma::mma_sync(scores[m], large, rest_of_x[2 * h], rest_of_x[2 * h + 1], 0.0f);
            warpwise::mma::mma_sync(scores[m], large, b0, b1, 0.0f);
          }
        }
      }

      // Sum i of a tile belongs to point 2 index + i % 2 and row group + i / 2 * 8. In units of log 2.
      {
        const int place = 2 * index;
        const auto field_of = [&](int j, int m) {
          Pair field = load_pair<TILES, VEC>(fields, m, group);
          if (FIELDS) {
            const float* const from =
                external + min(own + place + j, end - 1) * external_row + restart * external_restart;
#pragma unroll
            for (int i = 0; i < 2; ++i) {
              const int domain = domain_of<TILES, VEC>(m, group + 8 * i);
              field.at[i] += domain < domains ? kLog2E * from[domain] : 0.0f;
            }
          }
          return field;
        };
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int point = own + place + j;
          const bool inside = point < end;
          float* const to_tile = own_q + (place + j) * q_stride;
          float highest = warpwise::minus_infinity(), highest_prior = warpwise::minus_infinity();
#pragma unroll
          for (int m = 0; m < TILES; ++m) {
            const Pair around = load_pair<TILES, VEC>(to_tile, m, group), field = field_of(j, m);
            const Pair offset = load_pair<TILES, VEC>(constants, m, group);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
              float& score = scores[m][2 * i + j];
              const float prior = strength * around.at[i] + field.at[i];
              score = sharpness * score + offset.at[i] + prior;
              highest = fmaxf(highest, score);
              highest_prior = fmaxf(highest_prior, prior);
            }
          }
          highest = groups_max(highest);
          float expected = 0.0f;
          if (derivatives) {
            highest_prior = groups_max(highest_prior);
            float sum = 0.0f, mean = 0.0f, square = 0.0f;
#pragma unroll
            for (int m = 0; m < TILES; ++m) {
              const Pair around = load_pair<TILES, VEC>(to_tile, m, group), field = field_of(j, m);
#pragma unroll
              for (int i = 0; i < 2; ++i) {
                const float p = exp2_ftz(strength * around.at[i] + field.at[i] - highest_prior);
                sum += p;
                mean += p * around.at[i];
                square += p * around.at[i] * around.at[i];
              }
            }
            sum = 1.0f / groups_sum(sum);
            expected = mean * sum;  // the lane's part
            mean = groups_sum(expected);
            square = groups_sum(square) * sum;
            curvature += inside && group == 0 ? square - mean * mean : 0.0f;
          }
          float total = 0.0f, observed = 0.0f;
#pragma unroll
          for (int m = 0; m < TILES; ++m) {
            const Pair around = load_pair<TILES, VEC>(to_tile, m, group);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
              float& score = scores[m][2 * i + j];
              score = exp2_ftz(score - highest);
              total += score;
              observed += score * around.at[i];
            }
          }
          total = groups_sum(total);
          const float scale = inside ? 1.0f / total : 0.0f;
          gradient += inside ? observed * scale - expected : 0.0f;

          float* const to = q + static_cast<long long>(point) * row + restart * domains;
          constexpr int kWide = VEC == 4 ? 2 : 1;  // tiles of a store
#pragma unroll
          for (int m = 0; m < TILES; m += kWide) {
            const int domain = domain_of<TILES, VEC>(m, group);
            const float first_q = scores[m][j] * scale, second_q = scores[m][2 + j] * scale;
            if (VEC == 4 && m + 1 < TILES) {
              const int after = m + 1 < TILES ? m + 1 : m;
              const float4 four =
                  make_float4(first_q, second_q, scores[after][j] * scale, scores[after][2 + j] * scale);
              *reinterpret_cast<float4*>(to_tile + domain) = four;
              if (inside && domain < domains) __stcg(reinterpret_cast<float4*>(to + domain), four);
            } else if (VEC > 1) {
              const float2 two = make_float2(first_q, second_q);
              *reinterpret_cast<float2*>(to_tile + domain) = two;
              if (inside && domain < domains) __stcg(reinterpret_cast<float2*>(to + domain), two);
            } else {
              to_tile[domain] = first_q;
              to_tile[domain + 8] = second_q;
              if (inside && domain < domains) to[domain] = first_q;
              if (inside && domain + 8 < domains) to[domain + 8] = second_q;
            }
          }
        }
      }
      meet();

      // Index t of the inner dimension is point 2 t, index t + 4 is point 2 t + 1.
      float local[MI][NI][4] = {};  // tensor cores round sums towards zero: few are added there
#pragma unroll 1
      for (int s = first_step; s < first_step + kSharing; ++s) {
        const int p = 8 * s + 2 * index;
        unsigned large[MI][4], small[MI][4];
#pragma unroll
        for (int m = 0; m < MI; ++m) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int k = 16 * min(first_m + m, TILES - 1) + group + i % 2 * 8;  // of a tile past the last: not used
            const float value = q_tile[(p + i / 2) * q_stride + k];
            count[m][i % 2] += value;
            large[m][i] = __float_as_uint(value);
            small[m][i] = warpwise::rest_of_tf32(value);
          }
        }
        unsigned x[NI][2], rest[NI][2];
#pragma unroll
        for (int n = 0; n < NI; ++n) {
          const int d = 8 * min(first_n + n, tiles_of_width - 1) + group;  // past the width: not used
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const float value = tile[(p + i) * stride + d];
            x[n][i] = __float_as_uint(value);
            rest[n][i] = warpwise::rest_of_tf32(value);
          }
        }
#pragma unroll
        for (int product = 0; product < 3; ++product) {  // adjacent instructions add to different sums
#pragma unroll
          for (int n = 0; n < NI; ++n) {
#pragma unroll
            for (int m = 0; m < MI; ++m) {
              const unsigned* const b = product == 1 ? rest[n] : x[n];
              warpwise::mma::mma_sync(local[m][n], product == 0 ? small[m] : large[m], b[0], b[1], 0.0f);
            }
          }
        }
      }
#pragma unroll
      for (int m = 0; m < MI; ++m) {
#pragma unroll
        for (int n = 0; n < NI; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) moments[m][n][i] += local[m][n][i];
        }
      }
      meet();  // the tile has been read: the next copy may overwrite it
      fetch_features(next, next_end);
    }
  }
  __pipeline_wait_prior(0);

  const int moment = domains * width, size = moment + domains + 2;
  gradient = team_sum<32>(gradient);
  curvature = team_sum<32>(curvature);
#pragma unroll
  for (int m = 0; m < MI; ++m) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      count[m][i] += __shfl_xor_sync(kAllLanes, count[m][i], 1);
      count[m][i] += __shfl_xor_sync(kAllLanes, count[m][i], 2);
    }
  }
  for (int turn = 0; turn < kWarps; ++turn) {  // the parts of the points in order, the derivatives warp by warp
    __syncthreads();
    const auto add = [=](int at, float value) { shared[at] = turn > 0 ? shared[at] + value : value; };
    if (lane == 0 && warp == turn) {
      add(moment + domains, gradient);
      add(moment + domains + 1, curvature);
    }
    if (turn >= kParts || warp / kSharing != turn) continue;
#pragma unroll
    for (int m = 0; m < MI; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int k = 16 * (first_m + m) + group + i / 2 * 8;
        if (k >= domains) continue;
#pragma unroll
        for (int n = 0; n < NI; ++n) {
          const int d = 8 * (first_n + n) + 2 * index + i % 2;
          if (d < width) add(k * width + d, moments[m][n][i]);
        }
        if (first_n == 0 && index == 0 && i % 2 == 0) add(moment + k, count[m][i / 2]);
      }
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < size; i += kThreads) {
    partials[(static_cast<long long>(blockIdx.x) * restarts + restart) * size + i] = shared[i];
  }

  // Of 32 adjacent sums a warp adds every eighth block's.
  cooperative_groups::this_grid().sync();
  for (int base = blockIdx.x * 32; base < size; base += gridDim.x * 32) {
    const int i = base + lane;
    float total = 0.0f;
#pragma unroll 8
    for (int block = warp; block < gridDim.x && i < size; block += kWarps) {
      total += partials[(static_cast<long long>(block) * restarts + restart) * size + i];
    }
    __syncthreads();
    shared[threadIdx.x] = total;
    __syncthreads();
    if (warp > 0 || i >= size) continue;
    total = 0.0f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) total += shared[32 * w + lane];
    const int slope = i - moment - domains;
    if (i < moment) {
      sums[static_cast<long long>(restart) * moment + i] = total;
    } else if (slope < 0) {
      counts[restart * domains + i - moment] = total;
    } else if (derivatives) {
      derivatives[slope * restarts + restart] = total;
    }
  }
}
