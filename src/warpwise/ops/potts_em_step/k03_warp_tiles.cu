// A tile of 32 points for each warp: no barrier of the block between tiles, and moments by tensor cores.
//
// A lane has all domains of a point, or a team of lanes shares them, and loads eight neighbours before it adds the
// first. Scores are FMAs whose coefficients all points read together. The moments sum_i x_i q_i are products of (width,
// 32) with (32, domains): x and q are each the sum of two TF32 numbers, and three of the four products are added, which
// keeps float32's accuracy. A warp keeps its moments in registers over all its tiles.

#include <warpwise/sm80/copy_rows.cuh>

constexpr int kThreads = 128, kWarps = kThreads / 32;
constexpr int kTile = 32;  // points of a warp
constexpr int kEdges = 8;  // of a point, in flight
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr float kLog2E = 1.44269504f;

// Registers of a lane: four sums a tile of 16 features and 8 domains, and the neighbours in flight.
constexpr int blocks_an_sm(int tiles) { return tiles > 8 ? 3 : tiles > 2 ? 4 : 5; }

template <int LANES>
__device__ inline float team_sum(float value) {
#pragma unroll
  for (int distance = LANES / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}

template <int LANES>
__device__ inline float team_max(float value) {
#pragma unroll
  for (int distance = LANES / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

// Rows of features that a warp copies to its tile: lane l starts at word l of the tile and steps by 32 words of 16
// bytes.
struct WarpCopy {
  const float* features;
  int width, end, stride, row, quad, quads, step_rows, step_quads, bytes;

  __device__ WarpCopy(const float* from, int columns, int last) : features(from), width(columns), end(last) {
    stride = warpwise::tile_stride(width);
    quads = (width + 3) / 4;
    const int lane = threadIdx.x % 32;
    row = lane / quads;
    quad = lane - row * quads;
    step_rows = 32 / quads;
    step_quads = 32 - step_rows * quads;
    bytes = width % 4 == 0 && warpwise::aligned(from) ? 16 : width % 2 == 0 && warpwise::aligned<8>(from) ? 8 : 4;
  }

  __device__ void operator()(float* tile, int first) const {
    int r = row, c = quad;
    if (bytes == 16 && end - first >= kTile) {  // one range of memory
      const float* from = features + static_cast<long long>(first) * width + threadIdx.x % 32 * 4;
      unsigned to = warpwise::shared_address(tile + r * stride + 4 * c);
      for (int i = threadIdx.x % 32; i < kTile * quads; i += 32) {
        warpwise::mma::cp_async<16>(to, from, true);
        from += 128;
        to += 4 * (step_rows * stride + 4 * step_quads);
        c += step_quads;
        if (c >= quads) {
          c -= quads;
          to += 4 * (stride - 4 * quads);
        }
      }
      return;
    }
    while (r < kTile) {
      const int valid = first + r < end ? width - 4 * c : 0;
      const float* const from = features + (valid > 0 ? static_cast<long long>(first + r) * width + 4 * c : 0);
      const unsigned to = warpwise::shared_address(tile + r * stride + 4 * c);
      if (bytes == 16) {
        warpwise::mma::cp_async<16>(to, from, valid > 0);
      } else if (bytes == 8) {
        warpwise::cp_async8(to, from, valid > 0);
        warpwise::cp_async8(to + 8, valid > 2 ? from + 2 : features, valid > 2);
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) warpwise::mma::cp_async<4>(to + 4 * e, valid > e ? from + e : features, valid > e);
      }
      r += step_rows;
      c += step_quads;
      if (c >= quads) {
        c -= quads;
        ++r;
      }
    }
  }
};

// mma.sync reads the upper 19 bits of a float: what they leave of it.
__device__ inline unsigned rest_of_tf32(float value) {
  return __float_as_uint(value - __uint_as_float(__float_as_uint(value) & 0xffffe000u));
}

// 2^x; results below 2^-126 are 0.
__device__ inline float exp2_ftz(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// Rows begin to end of q: (n, restarts, domains), the points of one colour, are replaced by softmax(temper * score +
// beta * near + external), near = sum_j w_ij q_j. Their scores are features: (n, width) times linear: (restarts,
// domains, width), plus constant: (restarts, domains). external: rows of domains, external_row apart from point to
// point, external_restart from restart to restart. weights and near: (rows from near_begin on, restarts, domains) may
// be null.
//
// partials: (gridDim.x, restarts, size) or null. Row blockIdx.x = this block's sums over its points, added to the row
// if it is below `written`: of q x: (domains, width), then of q: (domains); then, with `derivatives`, of the first two
// derivatives of the pseudo-likelihood for beta. Grid: (blocks, restarts) of kThreads. LANES * QUADS * 4 is at least
// domains, and equal to it if FULL; ROWS * 16 is at least width. VECTOR: domains is a multiple of 4, and q, external
// and near are aligned to 16 bytes. Shared: see warp_tile_of in rungs.py.
template <int LANES, int QUADS, int ROWS, bool VECTOR, bool FULL>
__global__ void __launch_bounds__(kThreads, blocks_an_sm(ROWS*((LANES * QUADS + 1) / 2))) potts_em_step_warp_tiles(
    float* q, const float* features, const float* linear, const float* constant, const int* rowptr, const int* columns,
    const float* weights, const float* beta, const float* external, float* partials, float* near, int begin, int end,
    int near_begin, int written, int restarts, int domains, int width, long long external_row,
    long long external_restart, float temper, bool derivatives) {
  extern __shared__ __align__(16) float shared[];
  constexpr int kDomains = 4 * LANES * QUADS, kColumns = (LANES * QUADS + 1) / 2;  // tiles of 8 domains
  constexpr int kOwn = 4 * QUADS, kQStride = warpwise::tile_stride(8 * kColumns);
  constexpr int kPass = 32 / LANES;  // points at a time
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
  const WarpCopy copy(features, width, end);
  const int group = lane / 4, index = lane % 4;
  float moments[ROWS][kColumns][4] = {};
  float count[kOwn] = {}, gradient = 0.0f, curvature = 0.0f;

  const int step = gridDim.x * kThreads;
  int first = begin + blockIdx.x * kThreads + warp * kTile;
  int start = 0, stop = 0;                 // of the edges of point `lane` of the tile
  int edge = 0, last = 0, column[kEdges];  // of the team's point, and its first neighbours
  const auto load_columns = [&](const int place, const int starts, const int stops) {
    edge = LANES > 1 ? __shfl_sync(kAllLanes, starts, place) : starts;
    last = LANES > 1 ? __shfl_sync(kAllLanes, stops, place) : stops;
#pragma unroll
    for (int n = 0; n < kEdges; ++n) column[n] = edge + n < last ? columns[edge + n] : -1;
  };
  if (first < end) {
    copy(tiles, first);
    start = rowptr[min(first + lane, end)];
    stop = rowptr[min(first + lane + 1, end)];
    load_columns(lane / LANES, start, stop);
  }
  __pipeline_commit();
  for (int buffer = 0; first < end; first += step, buffer ^= 1) {
    int next_start = 0, next_stop = 0;
    if (end - first > step) {
      copy(tiles + (buffer ^ 1) * kTile * stride, first + step);
      next_start = rowptr[min(first + step + lane, end)];
      next_stop = rowptr[min(first + step + lane + 1, end)];
    }
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncwarp();
    const float* const tile = tiles + buffer * kTile * stride;

#pragma unroll 1
    for (int base = 0; base < kTile; base += kPass) {
      const int place = base + lane / LANES, point = first + place;
      const bool inside = point < end;
      const int here = inside ? domains : 0;  // no domain of a point past the end
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
        for (int n = 0; n < kEdges; ++n) column[n] = edge + n < last ? columns[edge + n] : -1;
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
          warpwise::store4<VECTOR>(near + at - static_cast<long long>(near_begin) * row + domain_of(u), support + 4 * u,
                                   domains - domain_of(u));
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
          small[i] = rest_of_tf32(x);
        }
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          const unsigned b0 = __float_as_uint(values[c][0]), b1 = __float_as_uint(values[c][1]);
          warpwise::mma::mma_sync(moments[r][c], small, b0, b1, 0.0f);
          warpwise::mma::mma_sync(moments[r][c], large, rest_of_tf32(values[c][0]), rest_of_tf32(values[c][1]), 0.0f);
          warpwise::mma::mma_sync(moments[r][c], large, b0, b1, 0.0f);
        }
      }
    }
    __syncwarp();  // the tile has been read: the next copy may overwrite it
    start = next_start;
    stop = next_stop;
  }
  __pipeline_wait_prior(0);
  if (!partials) return;

  const int size = domains * width + domains + (derivatives ? 2 : 0);
  const bool add = static_cast<int>(blockIdx.x) < written;
  float* const to = partials + (static_cast<long long>(blockIdx.x) * restarts + restart) * size;
  constexpr int kMoments = 16 * ROWS * 8 * kColumns, kSums = kMoments + kDomains + 2;
  __syncthreads();
  float* const sums = shared + warp * kSums;  // moments (features, domains), counts and derivatives of the warp
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        sums[(16 * r + group + i / 2 * 8) * 8 * kColumns + 8 * c + 2 * index + i % 2] = moments[r][c][i];
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
    for (int i = 0; i < kOwn; ++i) sums[kMoments + domain_of(i / 4) + i % 4] = count[i];
  }
  if (lane == 0) {
    sums[kMoments + kDomains] = gradient;
    sums[kMoments + kDomains + 1] = curvature;
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
    to[i] = add ? to[i] + total : total;
  }
}
