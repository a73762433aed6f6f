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

#include "warp_plan.cuh"
#include "warp_rows.cuh"
#include "warp_totals.cuh"

// Colour by colour, rows of q: (n, restarts, domains) are replaced by softmax(temper * score + beta * near + external),
// near = sum_j w_ij q_j. Their scores are features: (n, width) times linear: (restarts, domains, width), plus constant:
// (restarts, domains). external: rows of domains, external_row apart from point to point, external_restart from restart
// to restart. weights and near: (rows from that of the first colour on, restarts, domains) may be null.
//
// sums: (restarts, domains, width) of q x, counts: (restarts, domains) of q, and derivatives: (2, restarts) of the
// pseudo-likelihood for beta, or null. partials: eight zeros for each block, then (restarts, size, gridDim.x), size =
// domains * width + domains + 2 = these sums of each block. Cooperative grid: (blocks, restarts) of kThreads. LANES *
// OWN is at least domains, and equal to it if FULL; ROWS, a power of two, * 16 is at least width. POINTS: of a tile.
// VECTOR: rows of q are aligned to OWN elements, and if FULL or Q is float, domains is a multiple of 4, and external
// and near are aligned to 16 bytes. FIELDS: external_row is not 0. BLOCKS are resident on an SM. Shared: see
// warp_tile_of in tiles.py.
//
// Q is float or __nv_bfloat16, to which the posterior is rounded when it is stored; neighbours read the rounded values,
// and the sums have those before. Rows of q begin `pitch` elements after each other. Padding is read, not written.
template <class Q, int OWN, int LANES, int ROWS, int POINTS, int BLOCKS, bool VECTOR, bool FULL, bool FIELDS>
__global__ void __launch_bounds__(kThreads, BLOCKS) potts_em_step_one_launch(
    Q* q, const float* features, const float* linear, const float* constant, const int* rowptr, const int* columns,
    const float* weights, const float* beta, const float* external, float* partials, float* sums, float* counts,
    float* derivatives, float* near, Colours colours, int restarts, int domains, int width, int pitch,
    long long external_row, long long external_restart, float temper) {
  extern __shared__ __align__(16) float shared[];
  constexpr int kTile = POINTS, kPass = 32 / LANES, kOwn = OWN, kSteps = 2 * ROWS;
  constexpr int kPoints = (kTile + kPass - 1) / kPass;  // of a lane
  constexpr int kQStride = LANES == 2 ? 8 : 12;         // lanes read all halves of adjacent rows, or one of each row
  constexpr int kWords = 9 * kTile;                     // eight edges of each point, which lanes read nine words apart
  constexpr bool kWide = VECTOR && (FULL || sizeof(Q) == 4);  // rows of external and near
  static_assert(LANES * kOwn <= kDomains, "a tile of mma.sync has eight domains");
  static_assert(kPoints * kPass == kTile, "no lane is idle");
  const int restart = blockIdx.y, stride = warpwise::tile_stride(width);
  const int row = restarts * pitch, row_of_near = restarts * domains;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, part = lane % LANES;
  float* const coefficients = shared;  // [step][lane][4]: operand B, and the rests of its TF32 numbers
  float* const offsets = coefficients + 128 * kSteps;
  float* const fields = offsets + kDomains;
  float* const q_tile = fields + kDomains + warp * (kTile * kQStride + kWords + 2 * kTile * stride);
  int* const edges = reinterpret_cast<int*>(q_tile + kTile * kQStride);
  float* const tiles = q_tile + kTile * kQStride + kWords;
  const int own = OWN * part;  // the lane's first domain
  const float strength = kLog2E * beta[restart], sharpness = kLog2E * temper;

  for (int i = threadIdx.x; i < 64 * kSteps; i += kThreads) {
    const int k = i / 8 % 8, d = i / 64 * 8 + i % 8;  // lane 4 k + d % 4, half d / 4 % 2
    const float value = k < domains && d < width ? sharpness * linear[(restart * domains + k) * width + d] : 0.0f;
    float* const to = coefficients + (i / 64 * 32 + 4 * k + d % 4) * 4 + d / 4 % 2;
    to[0] = value;
    to[2] = __uint_as_float(warpwise::rest_of_tf32(value));
  }
  if (threadIdx.x < kDomains) {
    const int k = threadIdx.x;
    fields[k] = FIELDS || k >= domains ? 0.0f : kLog2E * external[restart * external_restart + k];
    offsets[k] = k < domains ? sharpness * constant[restart * domains + k] : 0.0f;
  }
  for (int i = lane; i < kTile * kQStride; i += 32) q_tile[i] = 0.0f;
  float* const zero_row = partials + kDomains * (blockIdx.y * gridDim.x + blockIdx.x);
  partials += kDomains * gridDim.x * restarts;
  if (threadIdx.x < kDomains) zero_row[threadIdx.x] = 0.0f;
  __syncthreads();

  const warpwise::WarpCopy<kTile> copy(features, width);
  const int group = lane / 4, index = lane % 4;
  int column_of[ROWS][2];  // features of the lane's rows of moments, the last one past the width
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int d = 16 * r + 8 * i + group;
      column_of[r][i] = 2 * r + 1 < ROWS ? d : min(d, width - 1);
    }
  }
  float moments[ROWS][4] = {};
  float count[kOwn] = {}, gradient = 0.0f, curvature = 0.0f;

  const int step = gridDim.x * kWarps * kTile, near_begin = colours.ends[0];
  int next_start = 0, next_stop = 0;  // of the edges of point `lane` of the next tile
  const auto first_of = [&](int colour) { return colours.ends[colour] + (blockIdx.x * kWarps + warp) * kTile; };
  const auto fetch = [&](int from, int end, int buffer) {  // points past the end have zeros and no edges
    next_start = next_stop = 0;
    if (end > 0) {
      copy(tiles + buffer * kTile * stride, from, end);
      next_start = rowptr[min(from + lane, end)];
      next_stop = rowptr[min(from + lane + 1, end)];
    }
    __pipeline_commit();
  };
  const auto copy_edges = [&] {  // of the next tile, which are adjacent
    const int begin = __shfl_sync(kAllLanes, next_start, 0);
    const int total = __shfl_sync(kAllLanes, next_stop, kTile - 1) - begin - lane;
    const unsigned to = warpwise::shared_address(edges + lane + lane / 8);
    copy_words<0, kEdges * kTile>(to, columns + begin + lane, total);
    __pipeline_commit();
  };
  const auto here = [&](bool inside) { return !inside ? 0 : FULL ? OWN : domains - own; };  // the lane's domains
  const char* const lanes = reinterpret_cast<const char*>(q + restart * pitch + own);
  const char* const zeros = reinterpret_cast<const char*>(zero_row + own);
  using Row = RowOf<Q, OWN>;
  const auto add_rows = [&](float (&support)[kOwn], const Row(&rows)[kEdges], int edge, int count) {
#pragma unroll
    for (int n = 0; n < kEdges; ++n) {
      const float weight = weights && n < count ? weights[edge + n] : 1.0f;
#pragma unroll
      for (int i = 0; i < kOwn; ++i) support[i] += weight * rows[n][i];
    }
  };
  // Row `at` of q, or zeros if it is negative: loaded too, since loads in flight must complete where lanes that branch
  // meet again.
  const auto load_row = [&](int at) {
    const char* const from = at >= 0 ? row_at(lanes, at, sizeof(Q) * row) : zeros;
    return Row::template load<VECTOR>(reinterpret_cast<const Q*>(from), here(true));
  };
  const auto exists = [=](int i) { return FULL || own + i < domains; };
  const auto grid = cooperative_groups::this_grid();
  cooperative_groups::grid_group::arrival_token arrived = 0;
  fetch(first_of(0), colours.ends[1], 0);
  copy_edges();

  int buffer = 0;
  for (int colour = 0; colour < colours.count; ++colour) {
    const int end = colours.ends[colour + 1];
    const bool final = colour + 1 == colours.count;
    const int later = final ? 0 : first_of(colour + 1), later_end = final ? 0 : colours.ends[colour + 2];
    int first = first_of(colour);
    bool waits = colour > 0;
    for (bool more = true; more; first += step, buffer ^= 1) {  // a warp without points takes part in the barriers
      more = end - first > step;
      const int starts = next_start, degrees = next_stop - next_start, begin = __shfl_sync(kAllLanes, starts, 0);
      const bool full = __all_sync(kAllLanes, lane >= kTile || degrees >= kEdges);
      const bool copied = __all_sync(kAllLanes, lane >= kTile || next_stop - begin <= kEdges * kTile);
      fetch(more ? first + step : later, more ? end : later_end, buffer ^ 1);
      __pipeline_wait_prior(1);
      __syncwarp();
      const float* const tile = tiles + buffer * kTile * stride;

      // Rows of 16 points: lane l loads the address of 16 bytes of row l % 16 for ldmatrix. Features past the width are
      // others, with zeros as coefficients.
      float products[kTile / 16][4];
#pragma unroll
      for (int m = 0; m < kTile / 16; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) products[m][i] = offsets[2 * index + i % 2];
      }
      const unsigned from = warpwise::shared_address(tile + lane % 16 * stride);
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        if (s > (ROWS > 1 ? ROWS : 0) && 8 * s >= width) continue;
        const auto c = *reinterpret_cast<const warpwise::Float4*>(coefficients + (32 * s + lane) * 4);
        unsigned b[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) b[i] = __float_as_uint(c.at[i]);
#pragma unroll
        for (int m = 0; m < kTile / 16; ++m) {
          unsigned x[4], rest[4];
          warpwise::ldmatrix_x4(x, from + 4 * (16 * m * stride + min(8 * s + lane / 16 * 4, (width - 1) / 4 * 4)));
#pragma unroll
          for (int i = 0; i < 4; ++i) rest[i] = warpwise::rest_of_tf32(__uint_as_float(x[i]));
          warpwise::mma::mma_sync(products[m], x, b[2], b[3], 0.0f);
          warpwise::mma::mma_sync(products[m], rest, b[0], b[1], 0.0f);
          warpwise::mma::mma_sync(products[m], x, b[0], b[1], 0.0f);
        }
      }
#pragma unroll
      for (int m = 0; m < kTile / 16; ++m) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          *reinterpret_cast<float2*>(q_tile + (16 * m + group + 8 * h) * kQStride + 2 * index) =
              make_float2(products[m][2 * h], products[m][2 * h + 1]);
        }
      }
      __syncwarp();

      if (waits) grid.barrier_wait(static_cast<unsigned&&>(arrived));
      waits = false;
      int start[kPoints], degree[kPoints], column[kPoints][kEdges];
      float support[kPoints][kOwn] = {}, scores[kPoints][kOwn], fields_of[kPoints][kOwn];
#pragma unroll
      for (int j = 0; j < kPoints; ++j) {
        const int place = lane / LANES + kPass * j;
        start[j] = __shfl_sync(kAllLanes, starts, place);
        degree[j] = __shfl_sync(kAllLanes, degrees, place);
      }
      if (full && copied) {
#pragma unroll
        for (int j = 0; j < kPoints; ++j) {
          const unsigned before = start[j] - begin;
          const int* const at = edges + before + before / 8;
#pragma unroll
          for (int n = 0; n < kEdges; ++n) column[j][n] = (n < kEdges - before % 8 ? at : at + 1)[n];
        }
      } else {
#pragma unroll
        for (int j = 0; j < kPoints; ++j) {
#pragma unroll
          for (int n = 0; n < kEdges; ++n) column[j][n] = n < degree[j] ? columns[start[j] + n] : -1;
        }
      }
      Row rows[kPoints][kEdges];
#pragma unroll
      for (int j = 0; j < kPoints; ++j) {
#pragma unroll
        for (int n = 0; n < kEdges; ++n) rows[j][n] = load_row(column[j][n]);
      }
#pragma unroll
      for (int j = 0; j < kPoints; ++j) add_rows(support[j], rows[j], start[j], degree[j]);
#pragma unroll
      for (int j = 0; j < kPoints; ++j) {
        for (int n = kEdges; n < degree[j]; n += kEdges) {
#pragma unroll
          for (int i = 0; i < kEdges; ++i) rows[j][i] = load_row(n + i < degree[j] ? columns[start[j] + n + i] : -1);
          add_rows(support[j], rows[j], start[j] + n, degree[j] - n);
        }
        if (!FULL && sizeof(Q) == 2) {  // not those of padding
#pragma unroll
          for (int i = 0; i < kOwn; ++i) support[j][i] = exists(i) ? support[j][i] : 0.0f;
        }
      }

#pragma unroll
      for (int j = 0; j < kPoints; ++j) {  // in units of log 2
        const int place = lane / LANES + kPass * j, point = first + place;
        const bool inside = point < end;
        float* const of_point = q_tile + place * kQStride + own;
        const float* const field = external + point * external_row + restart * external_restart + own;
        float values[kOwn], products[kOwn];
#pragma unroll
        for (int i = 0; i < kOwn; i += 4) {
          auto four = *reinterpret_cast<const warpwise::Float4*>(fields + own + i);
          if (FIELDS) four = warpwise::load4<kWide>(field + i, here(inside) - i);
          const auto scored = *reinterpret_cast<const warpwise::Float4*>(of_point + i);
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            values[i + e] = four.at[e];
            products[i + e] = scored.at[e];
          }
        }
        float highest = warpwise::minus_infinity(), total = 0.0f;
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
          const float value = FIELDS ? kLog2E * values[i] : values[i];
          fields_of[j][i] = exists(i) ? value : warpwise::minus_infinity();
          scores[j][i] = products[i] + (strength * support[j][i] + fields_of[j][i]);
          highest = fmaxf(highest, scores[j][i]);
        }
        highest = team_max<LANES>(highest);
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
          scores[j][i] = exp2_ftz(scores[j][i] - highest);
          total += scores[j][i];
        }
        total = team_sum<LANES>(total);
        const float scale = inside ? reciprocal(total) : 0.0f;
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
          scores[j][i] *= scale;
          count[i] += scores[j][i];
        }
#pragma unroll
        for (int i = 0; i < kOwn; i += 4) {
          *reinterpret_cast<warpwise::Float4*>(of_point + i) = {scores[j][i], scores[j][i + 1], scores[j][i + 2],
                                                                scores[j][i + 3]};
        }
        Q* const to = q + static_cast<long long>(point) * row + restart * pitch + own;
        store_own<VECTOR>(to, scores[j], here(inside));
      }
      __syncwarp();
      if (!more && !final) arrived = grid.barrier_arrive();
      copy_edges();

#pragma unroll
      for (int j = 0; j < kPoints; ++j) {
        const int point = first + lane / LANES + kPass * j;
        const bool inside = point < end;
        if (near) {
          float* const to = near + static_cast<long long>(point - near_begin) * row_of_near + restart * domains + own;
          store_own<kWide>(to, support[j], here(inside));
        }
        if (derivatives) {
          float sum, mean, square, shift = 0.0f;
          const auto add_prior = [&] {
            sum = mean = square = 0.0f;
#pragma unroll
            for (int i = 0; i < kOwn; ++i) {
              const float p = exp2_ftz(strength * support[j][i] + fields_of[j][i] - shift), pn = p * support[j][i];
              sum += p;
              mean += pn;
              square += pn * support[j][i];
            }
            sum = team_sum<LANES>(sum);
          };
          add_prior();
          if (__any_sync(kAllLanes, !(sum > 1.0f / kSafe && sum < kSafe))) {
            shift = warpwise::minus_infinity();
#pragma unroll
            for (int i = 0; i < kOwn; ++i) shift = fmaxf(shift, strength * support[j][i] + fields_of[j][i]);
            shift = team_max<LANES>(shift);
            add_prior();
          }
          const float weight = inside ? reciprocal(sum) : 0.0f;
          float observed = 0.0f;
#pragma unroll
          for (int i = 0; i < kOwn; ++i) observed += scores[j][i] * support[j][i];
          gradient += observed - mean * weight;  // the lane's part
          mean = team_sum<LANES>(mean) * weight;
          curvature += square * weight - (part == 0 ? mean * mean : 0.0f);
        }
      }

      // Index t of the fragments' inner dimension is point 2 t, index t + 4 is point 2 t + 1: no bank conflicts. Sums
      // of features past the width are not used.
#pragma unroll
      for (int p = 0; p < kTile; p += 8) {
        const float* const points = tile + (p + 2 * index) * stride;
        float values[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) values[i] = q_tile[(p + 2 * index + i) * kQStride + group];
        const unsigned b0 = __float_as_uint(values[0]), b1 = __float_as_uint(values[1]);
        const unsigned rest0 = warpwise::rest_of_tf32(values[0]), rest1 = warpwise::rest_of_tf32(values[1]);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
          if (2 * r > ROWS && 16 * r >= width) continue;
          unsigned large[4], small[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const float x = points[i / 2 * stride + column_of[r][i % 2]];
            large[i] = __float_as_uint(x);
            small[i] = warpwise::rest_of_tf32(x);
          }
          warpwise::mma::mma_sync(moments[r], small, b0, b1, 0.0f);
          warpwise::mma::mma_sync(moments[r], large, rest0, rest1, 0.0f);
          warpwise::mma::mma_sync(moments[r], large, b0, b1, 0.0f);
        }
      }
      __syncwarp();  // the tile has been read: the next copy may overwrite it
    }
  }
  __pipeline_wait_prior(0);

  const int size = domains * width + domains + 2;
  constexpr int kMoments = 16 * ROWS * kDomains, kSums = kMoments + kDomains + 2;
  __syncthreads();
  float* const own_sums = shared + warp * kSums;  // moments (features, domains), counts and derivatives of the warp
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      own_sums[(16 * r + group + i / 2 * 8) * kDomains + 2 * index + i % 2] = moments[r][i];
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
    for (int i = 0; i < kOwn; ++i) own_sums[kMoments + own + i] = count[i];
  }
  if (lane == 0) {
    own_sums[kMoments + kDomains] = gradient;
    own_sums[kMoments + kDomains + 1] = curvature;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < size; i += kThreads) {
    const int domain = i / width, column = i - domain * width, behind = i - domains * width;
    const int from = behind < 0         ? column * kDomains + domain
                     : behind < domains ? kMoments + behind
                                        : kMoments + kDomains + behind - domains;
    float total = 0.0f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) total += shared[w * kSums + from];
    partials[(static_cast<long long>(restart) * size + i) * gridDim.x + blockIdx.x] = total;
  }

  grid.sync();
  add_partials(partials, sums, counts, derivatives, restarts, domains, width);
}
