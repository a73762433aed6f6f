// A tile of points in shared memory: scores, neighbours, softmax and moments without an intermediate array.
//
// Per iteration the features and the edges are read once and q is written once. Scores and moments are products of 4 x
// 4 blocks in registers; for neighbours and softmax each lane has four adjacent domains of a point, so that a gather
// reads 16 bytes a lane. A block keeps its moments in registers over all its tiles and writes them once; a last launch
// adds the blocks' moments in a fixed order, so that two runs give the same bits.

#include <warpwise/core/reduce.cuh>
#include <warpwise/sm80/copy_rows.cuh>

constexpr int kThreads = 128;
// A thread keeps 16 moments per tile in registers.
constexpr int blocks_an_sm(int tiles) { return tiles <= 1 ? 5 : tiles <= 2 ? 4 : 2; }

__device__ inline warpwise::Float4 load_four(const float* from, int valid, bool vector) {
  return vector ? warpwise::load4<true>(from, valid) : warpwise::load4<false>(from, valid);
}

// Rows begin to end of q: (n, restarts, domains), the points of one colour, are replaced by softmax(temper * score +
// beta * near + external), near = sum_j w_ij V q_j. Their scores are features: (n, width) times linear: (restarts,
// domains, width), plus constant: (restarts, domains); or, with TILES = 0, features: (n, restarts, domains). external:
// rows of domains, external_row apart from point to point, external_restart from restart to restart. weights,
// interaction and near: (rows from near_begin on, restarts, domains) may be null.
//
// partials: (gridDim.x, restarts, size) or null. Row blockIdx.x = this block's sums over its points, added to the row
// if it is below `written`: with TILES > 0 of q x: (domains, width), then of q: (domains); then, with `derivatives`, of
// the first two derivatives of the pseudo-likelihood for beta. Grid: (blocks, restarts) of kThreads. A tile has
// `points` points, a multiple of 4; `lanes`, a power of two and at most 32, lanes of four domains each cover the
// domains. TILES: at least cdiv(domains, 4) * cdiv(width, 4) / kThreads. Shared: see shared_floats in tiles.py.
template <int TILES>
__global__ void __launch_bounds__(kThreads, blocks_an_sm(TILES)) potts_em_step_point_tiles(
    float* q, const float* features, const float* linear, const float* constant, const int* rowptr, const int* columns,
    const float* weights, const float* beta, const float* external, const float* interaction, float* partials,
    float* near, int begin, int end, int near_begin, int written, int restarts, int domains, int width,
    long long external_row, long long external_restart, float temper, bool derivatives, int points, int lanes) {
  extern __shared__ __align__(16) float shared[];
  constexpr int kMoments = TILES > 0 ? TILES : 1;
  const int restart = blockIdx.y, stride = warpwise::tile_stride(width), q_stride = warpwise::tile_stride(domains);
  const int domain_quads = (domains + 3) / 4, width_quads = max(1, (width + 3) / 4);
  float* const q_tile = shared;
  float* const rows = q_tile + points * q_stride;
  float* const buffers = rows + (TILES > 0 ? 4 * domain_quads * stride : 0);  // two tiles, each with its rowptr
  const int features_size = TILES > 0 ? points * stride : 0, buffer_size = features_size + points + 4;
  const int row = restarts * domains;
  const int lane = threadIdx.x % lanes, team = threadIdx.x / lanes, teams = kThreads / lanes;
  const int own = 4 * lane, valid = domains - own;  // the lane's first domain, and how many there are from it on
  const bool vector = domains % 4 == 0 && warpwise::aligned(q, external, interaction, near) &&
                      (TILES > 0 || warpwise::aligned(features));
  const float strength = beta[restart];

  // Block m of moments: domains 4 (m / width_quads) and features 4 (m % width_quads) on; groups divide the points.
  const int blocks = domain_quads * width_quads;
  const int groups = TILES == 1 ? kThreads / blocks : 1;
  const int group = TILES == 1 ? threadIdx.x / blocks : 0;
  const int moment = TILES == 1 ? threadIdx.x % blocks : threadIdx.x;
  int domain_of[kMoments], column_of[kMoments];
#pragma unroll
  for (int t = 0; t < kMoments; ++t) {
    const int block = moment + t * kThreads;
    domain_of[t] = block < blocks && group < groups ? block / width_quads * 4 : -1;
    column_of[t] = block % width_quads * 4;
  }
  float moments[kMoments][4][4] = {};
  float count[4] = {}, gradient = 0.0f, curvature = 0.0f;

  if constexpr (TILES > 0) {
    warpwise::load_rows(rows, linear + static_cast<long long>(restart) * domains * width, domains, width, 0,
                        4 * domain_quads, stride);
  }
  const auto copy = [=](long long from, int buffer) {
    float* const to = buffers + buffer * buffer_size;
    if constexpr (TILES > 0) warpwise::copy_rows_async(to, features, end, width, from, points, stride);
    for (int place = threadIdx.x; place <= points; place += kThreads) {
      const int* const start = rowptr + (from + place < end ? from + place : end);
      warpwise::mma::cp_async<4>(warpwise::shared_address(to + features_size + place), start, true);
    }
  };
  const long long step = static_cast<long long>(gridDim.x) * points;
  long long first = begin + static_cast<long long>(blockIdx.x) * points;
  if (first < end) copy(first, 0);
  __pipeline_commit();
  for (int buffer = 0; first < end; first += step, buffer ^= 1) {
    if (first + step < end) copy(first + step, buffer ^ 1);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    const float* const tile = buffers + buffer * buffer_size;
    const int* const starts = reinterpret_cast<const int*>(tile + features_size);
    if constexpr (TILES > 0) {
      const int quarter = points / 4;
      for (int t = threadIdx.x; t < quarter * domain_quads; t += kThreads) {
        const int point = t % quarter, domain = t / quarter * 4;
        float scores[4][4] = {};
        warpwise::add_products(scores, tile + point * stride, quarter * stride, rows + domain * stride, stride, width);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          *reinterpret_cast<warpwise::Float4*>(q_tile + (point + i * quarter) * q_stride + domain) = {
              scores[i][0], scores[i][1], scores[i][2], scores[i][3]};
        }
      }
      __syncthreads();
    }

    for (int base = 0; base < points; base += teams) {
      const int place = base + team;
      const long long point = first + place;
      const bool inside = place < points && point < end;
      const int here = inside ? valid : 0;  // 0 for a point past the end
      const long long at = point * row + restart * domains + own;
      warpwise::Float4 scores = {}, support = {};
      if constexpr (TILES > 0) {
        if (here > 0) {
          scores = *reinterpret_cast<const warpwise::Float4*>(q_tile + place * q_stride + own);
          const warpwise::Float4 constants = load_four(constant + restart * domains + own, here, false);
#pragma unroll
          for (int e = 0; e < 4; ++e) scores.at[e] += constants.at[e];
        }
      } else {
        scores = load_four(features + at, here, vector);
      }
      const int last = inside ? starts[place + 1] : 0;
#pragma unroll 4
      for (int edge = inside ? starts[place] : 0; edge < last; ++edge) {
        const warpwise::Float4 neighbour =
            load_four(q + static_cast<long long>(columns[edge]) * row + restart * domains + own, here, vector);
        const float weight = weights ? weights[edge] : 1.0f;
#pragma unroll
        for (int e = 0; e < 4; ++e) support.at[e] += weight * neighbour.at[e];
      }
      if (interaction) {
        __syncwarp();
        if (here > 0) *reinterpret_cast<warpwise::Float4*>(q_tile + place * q_stride + own) = support;
        __syncwarp();
        support = {};
        for (int l = 0; here > 0 && l < domains; ++l) {
          const warpwise::Float4 gains =
              load_four(interaction + static_cast<long long>(l) * domains + own, here, vector);
#pragma unroll
          for (int e = 0; e < 4; ++e) support.at[e] += q_tile[place * q_stride + l] * gains.at[e];
        }
        __syncwarp();
      }
      if (near && here > 0) {
        float* const to = near + at - near_begin * row;
        if (vector)
          warpwise::store4<true>(to, support.at, here);
        else
          warpwise::store4<false>(to, support.at, here);
      }

      const warpwise::Float4 field =
          load_four(external + point * external_row + restart * external_restart + own, here, vector);
      float prior[4], logits[4], probabilities[4];
      float highest = warpwise::minus_infinity(), highest_prior = warpwise::minus_infinity();
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        prior[e] = e < here ? strength * support.at[e] + field.at[e] : warpwise::minus_infinity();
        logits[e] = temper * scores.at[e] + prior[e];
        highest = fmaxf(highest, logits[e]);
        highest_prior = fmaxf(highest_prior, prior[e]);
      }
      highest = warpwise::warp_reduce<warpwise::Max>(highest, lanes);
      float total = 0.0f;
#pragma unroll
      for (int e = 0; e < 4; ++e) total += probabilities[e] = e < here ? __expf(logits[e] - highest) : 0.0f;
      const float scale = 1.0f / warpwise::warp_reduce<warpwise::Sum>(total, lanes);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        probabilities[e] = e < here ? probabilities[e] * scale : 0.0f;
        count[e] += probabilities[e];
      }
      if (here > 0) {
        if (vector)
          warpwise::store4<true>(q + at, probabilities, here);
        else
          warpwise::store4<false>(q + at, probabilities, here);
      }
      if (TILES > 0 && place < points && valid > 0) {
        *reinterpret_cast<warpwise::Float4*>(q_tile + place * q_stride + own) = {probabilities[0], probabilities[1],
                                                                                 probabilities[2], probabilities[3]};
      }
      if (derivatives) {
        highest_prior = warpwise::warp_reduce<warpwise::Max>(highest_prior, lanes);
        float sum = 0.0f, mean = 0.0f, square = 0.0f, observed = 0.0f;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float p = e < here ? __expf(prior[e] - highest_prior) : 0.0f;
          sum += p;
          mean += p * support.at[e];
          square += p * support.at[e] * support.at[e];
          observed += probabilities[e] * support.at[e];
        }
        sum = 1.0f / warpwise::warp_reduce<warpwise::Sum>(sum, lanes);
        mean = warpwise::warp_reduce<warpwise::Sum>(mean, lanes) * sum;
        square = warpwise::warp_reduce<warpwise::Sum>(square, lanes) * sum;
        observed = warpwise::warp_reduce<warpwise::Sum>(observed, lanes);
        if (inside && lane == 0) {
          gradient += observed - mean;
          curvature += square - mean * mean;
        }
      }
    }

    if constexpr (TILES > 0) {
      __syncthreads();
      for (int point = group; point < points; point += groups) {
#pragma unroll
        for (int t = 0; t < TILES; ++t) {
          if (domain_of[t] < 0) continue;
          const warpwise::Float4 weights4 =
              *reinterpret_cast<const warpwise::Float4*>(q_tile + point * q_stride + domain_of[t]);
          const warpwise::Float4 values =
              *reinterpret_cast<const warpwise::Float4*>(tile + point * stride + column_of[t]);
#pragma unroll
          for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) moments[t][i][j] += weights4.at[i] * values.at[j];
          }
        }
      }
    }
    __syncthreads();  // the tile has been read: the next copy may overwrite it
  }
  __pipeline_wait_prior(0);
  if (!partials) return;

  const int size = (TILES > 0 ? domains * width + domains : 0) + (derivatives ? 2 : 0);
  const bool add = static_cast<int>(blockIdx.x) < written;
  float* to = partials + (static_cast<long long>(blockIdx.x) * restarts + restart) * size;
  if constexpr (TILES > 0) {
#pragma unroll
    for (int t = 0; t < TILES; ++t) {
      if constexpr (TILES == 1) {
        __syncthreads();
#pragma unroll
        for (int e = 0; e < 16; ++e) shared[threadIdx.x * 16 + e] = moments[0][e / 4][e % 4];
        __syncthreads();
        for (int i = threadIdx.x; i < domains * width; i += kThreads) {
          const int domain = i / width, column = i - domain * width;
          const int from = (domain / 4 * width_quads + column / 4) * 16 + domain % 4 * 4 + column % 4;
          float total = 0.0f;
          for (int g = 0; g < groups; ++g) total += shared[g * blocks * 16 + from];
          to[i] = add ? to[i] + total : total;
        }
      } else if (domain_of[t] >= 0) {
        const int domain = domain_of[t], column = column_of[t];
#pragma unroll
        for (int e = 0; e < 16; ++e) {
          if (domain + e / 4 < domains && column + e % 4 < width) {
            float& sum = to[(domain + e / 4) * width + column + e % 4];
            sum = add ? sum + moments[t][e / 4][e % 4] : moments[t][e / 4][e % 4];
          }
        }
      }
    }
    to += domains * width;
    __syncthreads();
    *reinterpret_cast<warpwise::Float4*>(shared + threadIdx.x * 4) = {count[0], count[1], count[2], count[3]};
    __syncthreads();
    for (int domain = threadIdx.x; domain < domains; domain += kThreads) {
      float total = 0.0f;
      for (int t = 0; t < teams; ++t) total += shared[t * lanes * 4 + domain];
      to[domain] = add ? to[domain] + total : total;
    }
    to += domains;
  }
  if (!derivatives) return;
  __syncthreads();
  if (lane == 0) {
    shared[team] = gradient;
    shared[teams + team] = curvature;
  }
  __syncthreads();
  if (threadIdx.x < 2) {
    float total = 0.0f;
    for (int t = 0; t < teams; ++t) total += shared[threadIdx.x * teams + t];
    to[threadIdx.x] = add ? to[threadIdx.x] + total : total;
  }
}

// partials: (rows, restarts, size), as above, summed over the rows in a fixed order into sums: (restarts, moments) and
// counts: (restarts, domains), both null without moments, and derivatives: (2, restarts) or null. A warp sums every
// 32nd row of 32 adjacent elements. Block: 1024. Grid: cdiv(restarts * size, 32).
__global__ void __launch_bounds__(1024) potts_em_step_add_partials(const float* partials, float* sums, float* counts,
                                                                   float* derivatives, int rows, int restarts, int size,
                                                                   int moments, int domains) {
  constexpr int kWarps = 32;
  __shared__ float warp_sums[kWarps][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const long long all = static_cast<long long>(restarts) * size, i = static_cast<long long>(blockIdx.x) * 32 + lane;
  float sum = 0.0f;
#pragma unroll 8
  for (int r = warp; r < rows && i < all; r += kWarps) sum += partials[r * all + i];
  warp_sums[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || i >= all) return;
#pragma unroll
  for (int w = 1; w < kWarps; ++w) sum += warp_sums[w][lane];
  const int restart = static_cast<int>(i / size);
  int at = static_cast<int>(i % size);
  if (sums) {
    if (at < moments) sums[static_cast<long long>(restart) * moments + at] = sum;
    at -= moments;
    if (at >= 0 && at < domains) counts[restart * domains + at] = sum;
    at -= domains;
  }
  if (derivatives && at >= 0) derivatives[at * restarts + restart] = sum;
}
