// k01's computation in float64 for q in bfloat16, without conversion instructions and calls of log.
//
// A conversion to float64 takes four times as long as an addition, and a logarithm 30 instructions. The exponent and
// the mantissa of a bfloat16 have other positions and another bias in a float64, so one integer multiply-add converts a
// normal number. Zero becomes 2^-127. The mantissa has seven bits, so log(2^e (1 + m / 128)) is e log(2) plus one of
// 128 numbers in shared memory. A lane has up to eight domains of a point, one load of 16 bytes, and loads the rows of
// eight neighbours before it adds the first. While it adds, it loads the edges of its next point.

#include <warpwise/core/float4.cuh>

#include "block_sum.cuh"

constexpr int kEdges = 8;  // of a point, in flight
constexpr int kMantissas = 128;
constexpr double kLn2 = 0.693147180559945309;
constexpr unsigned kUpperOf128 = 0x47f00000;  // the upper word of 2^128 in float64

// OWN probabilities in bfloat16.
template <int OWN>
struct Bfloat16Row {
  warpwise::Vector<unsigned, OWN / 2> words;

  __device__ unsigned bits(int i) const { return i % 2 ? words.at[i / 2] >> 16 : words.at[i / 2] & 0xffffu; }
  // The bias of float64 is 896 more. Infinities, NaN and numbers with a sign become numbers from 2^128 on.
  __device__ double operator[](int i) const {
    return __hiloint2double(static_cast<int>(bits(i) * (1u << 13) + (896u << 20)), 0);
  }
};

// The edges of a point, and its first neighbours; the point itself replaces those that do not exist.
struct Edges {
  int start, stop, at[kEdges];

  __device__ void load_bounds(const int* rowptr, long long point, int n) {
    start = point < n ? rowptr[point] : 0;
    stop = point < n ? rowptr[point + 1] : 0;
  }

  __device__ void load_columns(const int* columns, int first, int point) {
#pragma unroll
    for (int e = 0; e < kEdges; ++e) at[e] = e < stop - first ? columns[first + e] : point;
  }
};

__device__ inline unsigned upper(double value) { return static_cast<unsigned>(__double2hiint(value)); }

// The terms of a point, of its domains 0 to `count` from `own` on: for an infinity, NaN or a number with a sign in a
// row. Row p of q begins p * row elements after `own`; field: of the point.
__device__ __noinline__ double terms_of_any(const __nv_bfloat16* own, long long row, int point, int count, int start,
                                            int stop, const int* columns, const float* weights, const float* field,
                                            double strength) {
  double terms = 0.0;
  for (int i = 0; i < count; ++i) {
    double support = 0.0;
    for (int edge = start; edge < stop; ++edge) {
      support += (weights ? weights[edge] : 1.0f) * static_cast<double>(__bfloat162float(own[columns[edge] * row + i]));
    }
    const double p = __bfloat162float(own[point * row + i]);
    if (p > 0.0) terms += p * (field[i] + strength * support - log(p));
  }
  return terms;
}

// The arguments are those of k01, without interaction. Rows of q are aligned to OWN elements; lanes, a power of two and
// at most 32, have OWN of them each, of which those from `domains` on are not used. FIELDS: external_row is not 0.
// Grid: (any, restarts) of kThreads.
template <int OWN, bool FIELDS>
__global__ void __launch_bounds__(kThreads, 2) potts_bound_integer_conversion(
    const __nv_bfloat16* q, const int* rowptr, const int* columns, const float* weights, const float* beta,
    const float* external, double* partials, int n, int restarts, int domains, int pitch, long long external_row,
    long long external_restart, int lanes) {
  using Row = Bfloat16Row<OWN>;
  __shared__ double logs[kMantissas];
  for (int m = threadIdx.x; m < kMantissas; m += kThreads) logs[m] = log(1.0 + m * (1.0 / kMantissas));
  __syncthreads();
  const int restart = blockIdx.y, own = OWN * (threadIdx.x % lanes), valid = domains - own, last = n - 1;
  const long long step = gridDim.x * (kThreads / lanes);
  const unsigned row_bytes = sizeof(__nv_bfloat16) * restarts * pitch;
  const auto load_row = [=, rows = reinterpret_cast<const char*>(q + restart * pitch + own)](int at) {
    const size_t offset = static_cast<size_t>(static_cast<unsigned>(at)) * row_bytes;
    Row row = {};
    if (valid > 0) row = *reinterpret_cast<const Row*>(rows + offset);
    return row;
  };
  const float* const field = external + restart * external_restart + own;
  const double strength = 0.5 * beta[restart];
  float fields[OWN];
#pragma unroll
  for (int i = 0; i < OWN; ++i) fields[i] = i < valid ? field[i] : 0.0f;
  long long base = static_cast<long long>(blockIdx.x) * (kThreads / lanes);  // the first point of the block
  const int team = threadIdx.x / lanes;
  const auto clamped = [=](long long point) { return static_cast<int>(point < n ? point : last); };
  Edges edges, next;
  edges.load_bounds(rowptr, base + team, n);
  next.load_bounds(rowptr, base + team + step, n);
  edges.load_columns(columns, edges.start, clamped(base + team));
  double sum = 0.0;
  for (; base < n; base += step) {  // all lanes of a warp take part
    const int point = clamped(base + team);
    const Row values = load_row(point);
    Row near[kEdges];
    const auto load_rows = [&] {
#pragma unroll
      for (int e = 0; e < kEdges; ++e) near[e] = load_row(edges.at[e]);
    };
    load_rows();
    next.load_columns(columns, next.start, clamped(base + team + step));
    double support[OWN] = {};
    if (!weights && __all_sync(kAllLanes, edges.stop - edges.start == kEdges)) {
#pragma unroll
      for (int i = 0; i < kEdges * OWN; ++i) support[i % OWN] += near[i / OWN][i % OWN];
    } else {
      const int most = __reduce_max_sync(kAllLanes, edges.stop - edges.start);
      for (int first = 0; first < most; first += kEdges) {
        if (first > 0) {
          edges.load_columns(columns, edges.start + first, point);
          load_rows();
        }
#pragma unroll
        for (int e = 0; e < kEdges; ++e) {
          const int edge = edges.start + first;
          const double weight = e >= edges.stop - edge ? 0.0f : weights ? weights[edge + e] : 1.0f;
#pragma unroll
          for (int i = 0; i < OWN; ++i) support[i] += weight * near[e][i];
        }
      }
    }
    double terms = 0.0;
    unsigned highest = 0;  // of the upper words; with a sign a word is larger than all without
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
      if (FIELDS) fields[i] = i < valid ? field[point * external_row + i] : 0.0f;
      const unsigned bits = values.bits(i);
      const double p = values[i], logarithm = (static_cast<int>(bits >> 7) - 127) * kLn2 + logs[bits % kMantissas];
      highest = max(highest, max(upper(p), upper(support[i])));
      if (i < valid && bits > 0) terms += p * (fields[i] + strength * support[i] - logarithm);
    }
    if (highest >= kUpperOf128) {
      terms = terms_of_any(q + restart * pitch + own, static_cast<long long>(restarts) * pitch, point, min(OWN, valid),
                           edges.start, edges.stop, columns, weights, field + point * external_row, strength);
    }
    if (base + team < n) sum += terms;
    edges = next;
    next.load_bounds(rowptr, base + team + 2 * step, n);
  }
  store_block_sum(sum, partials);
}
