// Passes over all points at the start and at the end of a fit, each of which PyTorch makes in several.

#include <warpwise/core/float4.cuh>
#include <warpwise/core/reduce.cuh>
#include <warpwise/sm80/double_mma.cuh>

constexpr int kThreads = 256;
constexpr unsigned kAllLanes = 0xffffffffu;

template <bool VECTOR>
__device__ inline warpwise::Float4 load_four(const float* from, int valid) {
  return warpwise::load4<VECTOR>(from, valid);
}

// rows: (n, width) = (x: (any, width) - mean: (width)) * scale: (width), of the rows order: (n) of x, or of all without
// order. Without mean it is 0, without scale 1.
template <class T>
__global__ void __launch_bounds__(kThreads) centred_rows(const T* x, const long long* order, const T* mean,
                                                         const T* scale, T* rows, long long n, int width) {
  const long long count = n * width, step = static_cast<long long>(gridDim.x) * kThreads;
#pragma unroll 4
  for (long long at = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x; at < count; at += step) {
    const long long row = at / width;
    const int column = static_cast<int>(at - row * width);
    T value = x[(order ? order[row] : row) * width + column];
    if (mean) value -= mean[column];
    rows[at] = scale ? value * scale[column] : value;
  }
}

// q: (n, restarts, domains) = `high` at the domain that labels: (restarts, n) gives, `low` elsewhere, in rows that
// begin `pitch` elements after each other.
template <class T, class Q>
__global__ void __launch_bounds__(kThreads) q_of_labels(const T* labels, Q* q, long long n, int restarts, int domains,
                                                        int pitch, float low, float high) {
  const int quads = (domains + 3) / 4;
  const bool vector = domains % 4 == 0 && pitch % 4 == 0 && warpwise::aligned(q);
  const long long step = static_cast<long long>(gridDim.x) * kThreads, count = n * restarts * quads;
  for (long long at = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x; at < count; at += step) {
    const long long row = at / quads, point = row / restarts;
    const int own = static_cast<int>(at - row * quads) * 4;
    const int label = static_cast<int>(labels[(row - point * restarts) * n + point]) - own;
    const float values[4] = {label == 0 ? high : low, label == 1 ? high : low, label == 2 ? high : low,
                             label == 3 ? high : low};
    if (vector) {
      warpwise::store4<true>(q + row * pitch + own, values, 4);
    } else {
      warpwise::store4<false>(q + row * pitch + own, values, domains - own);
    }
  }
}

// Row i of q: (n, domains) belongs to point ids[i]. Its row of probabilities is row i, its label the first domain of
// the largest probability, its uncertainty 1 less this probability. `lanes`, a power of two and at most 32, of four
// domains each cover the domains.
__global__ void __launch_bounds__(kThreads) results_of_points(const float* q, const long long* ids,
                                                              float* probabilities, long long* labels,
                                                              float* uncertainty, long long n, int domains, int lanes) {
  const int lane = threadIdx.x % lanes, own = 4 * lane;
  const bool vector = domains % 4 == 0 && warpwise::aligned(q, probabilities);
  const int teams = kThreads / lanes;
  const long long step = static_cast<long long>(gridDim.x) * teams;
  for (long long base = static_cast<long long>(blockIdx.x) * teams; base < n; base += step) {
    const long long row = base + threadIdx.x / lanes;
    const int here = row < n ? domains - own : 0;
    const long long id = row < n ? ids[row] : 0;
    const float* const from = q + row * domains + own;
    float* const to = probabilities + id * domains + own;
    const warpwise::Float4 values = vector ? load_four<true>(from, here) : load_four<false>(from, here);
    if (vector) {
      warpwise::store4<true>(to, values.at, here);
    } else {
      warpwise::store4<false>(to, values.at, here);
    }
    float largest = -1.0f;
    int label = 0;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (e < here && values.at[e] > largest) {
        largest = values.at[e];
        label = own + e;
      }
    }
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
      const float other = __shfl_xor_sync(kAllLanes, largest, distance);
      const int other_label = __shfl_xor_sync(kAllLanes, label, distance);
      if (other > largest || (other == largest && other_label < label)) {
        largest = other;
        label = other_label;
      }
    }
    if (row < n && lane == 0) {
      labels[id] = label;
      uncertainty[id] = 1.0f - largest;
    }
  }
}

// log sum_k exp(value_k) over the team's domains, of which the lane has four; those that do not exist are minus
// infinity.
__device__ inline float team_log_sum(const float (&values)[4], int lanes) {
  const float highest =
      warpwise::warp_reduce<warpwise::Max>(fmaxf(fmaxf(values[0], values[1]), fmaxf(values[2], values[3])), lanes);
  float sum = 0.0f;
#pragma unroll
  for (int e = 0; e < 4; ++e) sum += __expf(values[e] - highest);
  return highest + __logf(warpwise::warp_reduce<warpwise::Sum>(sum, lanes));
}

// partials[blockIdx.x] = the block's sum over points i < n of log sum_k p(x_i | k)^temper p(z_i = k | neighbours), with
// log p(x_i | k) = features_i · linear_k + constant_k and p(z_i = k | neighbours) = softmax_k(beta sum_j w_ij q_jk +
// external_ik). features: (any, width), linear: (domains, width), q: (any, domains), external: rows of domains,
// external_row apart. weights may be null. `lanes`: as above. Shared: lanes * 4 * width floats.
__global__ void __launch_bounds__(kThreads) pseudo_likelihood(
    const float* q, const float* features, const float* linear, const float* constant, const int* rowptr,
    const int* columns, const float* weights, const float* beta, const float* external, double* partials, long long n,
    int domains, int width, long long external_row, float temper, int lanes) {
  extern __shared__ __align__(16) float coefficients[];  // (width, 4 lanes): adjacent domains are adjacent
  __shared__ double warp_sums[kThreads / 32];
  const int lane = threadIdx.x % lanes, own = 4 * lane, padded = 4 * lanes, teams = kThreads / lanes;
  const bool vector = domains % 4 == 0 && warpwise::aligned(q, external);
  for (int i = threadIdx.x; i < padded * width; i += kThreads) {
    const int domain = i % padded;
    coefficients[i] = domain < domains ? linear[domain * width + i / padded] : 0.0f;
  }
  __syncthreads();
  const auto load = [=](const float* from, int count) {
    return vector ? load_four<true>(from, count) : load_four<false>(from, count);
  };
  const warpwise::Float4 constants = load_four<false>(constant + own, domains - own);
  const float strength = beta[0];
  double sum = 0.0;
  const long long step = static_cast<long long>(gridDim.x) * teams;
  for (long long base = static_cast<long long>(blockIdx.x) * teams; base < n; base += step) {
    const long long point = base + threadIdx.x / lanes;
    const bool inside = point < n;
    const int here = inside ? domains - own : 0;  // 0 for a point past the end
    float support[4] = {}, scores[4];
    const int last = inside ? rowptr[point + 1] : 0;
#pragma unroll 4
    for (int edge = inside ? rowptr[point] : 0; edge < last; ++edge) {
      const warpwise::Float4 near = load(q + static_cast<long long>(columns[edge]) * domains + own, here);
      const float weight = weights ? weights[edge] : 1.0f;
#pragma unroll
      for (int e = 0; e < 4; ++e) support[e] += weight * near.at[e];
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) scores[e] = constants.at[e];
    const float* const x = features + (inside ? point : 0) * width;
#pragma unroll 4
    for (int d = 0; d < width; ++d) {
      const auto c = *reinterpret_cast<const warpwise::Float4*>(coefficients + d * padded + own);
      const float value = x[d];
#pragma unroll
      for (int e = 0; e < 4; ++e) scores[e] += value * c.at[e];
    }
    const warpwise::Float4 field = load(external + point * external_row + own, here);
    float prior[4], joint[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const bool exists = own + e < domains;
      prior[e] = exists ? strength * support[e] + field.at[e] : warpwise::minus_infinity();
      joint[e] = exists ? temper * scores[e] + prior[e] : warpwise::minus_infinity();
    }
    const float evidence = team_log_sum(joint, lanes) - team_log_sum(prior, lanes);
    if (inside && lane == 0) sum += evidence;
  }

  sum = warpwise::block_reduce<warpwise::DoubleSum, kThreads>(sum, warp_sums);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

// Statistics of the columns of x: (n, width) over the block's rows, with d the difference to the first row of x: the
// sums of d and of d^2, the minimum and the maximum of x. partials: (gridDim.x, 4, width). A thread has VECTOR adjacent
// columns; block (any, c) has the columns from kThreads * VECTOR * c on.
template <int VECTOR>
__global__ void __launch_bounds__(kThreads) statistics_of_columns(const float* x, double* partials, long long n,
                                                                  int width) {
  __shared__ double shared[kThreads][VECTOR];
  const int begin = static_cast<int>(blockIdx.y) * kThreads, columns = min(kThreads, width / VECTOR - begin);
  const int rows = kThreads / columns, row = threadIdx.x / columns;
  const int column = (begin + static_cast<int>(threadIdx.x) % columns) * VECTOR;
  using Values = warpwise::Vector<float, VECTOR>;
  const auto first = *reinterpret_cast<const Values*>(x + column);
  double sums[VECTOR] = {}, squares[VECTOR] = {}, lows[VECTOR], highs[VECTOR];
#pragma unroll
  for (int e = 0; e < VECTOR; ++e) lows[e] = highs[e] = first.at[e];
  const long long step = static_cast<long long>(gridDim.x) * rows;
  const long long end = row < rows ? n : 0;
#pragma unroll 4
  for (long long at = static_cast<long long>(blockIdx.x) * rows + row; at < end; at += step) {
    const auto values = *reinterpret_cast<const Values*>(x + at * width + column);
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) {
      const double value = values.at[e], offset = value - first.at[e];
      sums[e] += offset;
      squares[e] += offset * offset;
      lows[e] = fmin(lows[e], value);
      highs[e] = fmax(highs[e], value);
    }
  }
  const auto combine = [&](int which, double (&values)[VECTOR], auto operation) {
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) shared[threadIdx.x][e] = values[e];
    __syncthreads();
    for (int e = 0; e < VECTOR && row == 0; ++e) {
      double all = values[e];
      for (int r = 1; r < rows; ++r) all = operation(all, shared[r * columns + threadIdx.x][e]);
      partials[(static_cast<long long>(blockIdx.x) * 4 + which) * width + column + e] = all;
    }
    __syncthreads();
  };
  const auto add = [](double a, double b) { return a + b; };
  combine(0, sums, add);
  combine(1, squares, add);
  combine(2, lows, [](double a, double b) { return fmin(a, b); });
  combine(3, highs, [](double a, double b) { return fmax(a, b); });
}

constexpr int kTile = 16, kWarps = kThreads / warpwise::kWarp;  // side of a tile of products
constexpr int kSteps = 4, kPoints = 4 * kSteps;                 // products of a warp whose operands are loaded together

// partials[blockIdx.x]: (width, depth) = sums over the block's points of the products of x: (n, width) and y: (n,
// depth) in float64. Block (any, t) has tile t of 16 x 16 products, row by row. Lane 4 g + q loads the features 2 g and
// 2 g + 1 of the tile, of point q of four: rows, or columns, g of the operands of two products.
__global__ void __launch_bounds__(kThreads) sums_of_products(const float* x, const float* y, double* partials,
                                                             long long n, int width, int depth) {
  __shared__ double shared[kWarps][kTile * kTile];
  const int across = (depth + kTile - 1) / kTile;
  const int row = static_cast<int>(blockIdx.y) / across * kTile, column = static_cast<int>(blockIdx.y) % across * kTile;
  const int warp = threadIdx.x / warpwise::kWarp, group = threadIdx.x % warpwise::kWarp / 4, place = threadIdx.x % 4;
  const bool pairs = width % 2 == 0 && depth % 2 == 0 && warpwise::aligned(x, y);
  const bool same = x == y && row == column;
  const auto load = [&](const float* from, int columns, int first, long long point) {
    const int own = first + 2 * group, left = point < n ? columns - own : 0;
    const float* const at = from + point * columns + own;
    if (pairs) return left > 0 ? *reinterpret_cast<const float2*>(at) : make_float2(0.0f, 0.0f);
    return make_float2(left > 0 ? at[0] : 0.0f, left > 1 ? at[1] : 0.0f);
  };
  double sums[2][2][2] = {};
  const long long step = static_cast<long long>(gridDim.x) * kWarps * kPoints;
  for (long long first = (static_cast<long long>(blockIdx.x) * kWarps + warp) * kPoints; first < n; first += step) {
    float2 a[kSteps], b[kSteps];
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      a[s] = load(x, width, row, first + 4 * s + place);
      b[s] = same ? a[s] : load(y, depth, column, first + 4 * s + place);
    }
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const double left[2] = {a[s].x, a[s].y}, right[2] = {b[s].x, b[s].y};
#pragma unroll
      for (int k = 0; k < 4; ++k) warpwise::multiply_add(sums[k / 2][k % 2], left[k / 2], right[k % 2]);
    }
  }
#pragma unroll
  for (int k = 0; k < 8; ++k) {  // sums[i][j][e] is that of the features 2 g + i and 2 (2 q + e) + j
    shared[warp][(2 * group + k / 4) * kTile + 4 * place + 2 * (k % 2) + k / 2 % 2] = sums[k / 4][k / 2 % 2][k % 2];
  }
  __syncthreads();
  double total = 0.0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) total += shared[w][threadIdx.x];
  const int r = row + threadIdx.x / kTile, c = column + threadIdx.x % kTile;
  if (r < width && c < depth) partials[(static_cast<long long>(blockIdx.x) * width + r) * depth + c] = total;
}
