// q in bfloat16: all of k01's float64, without its conversions and logarithms.
//
// k01 converts each value of a neighbour to float64 at a quarter of the rate of additions, and computes a logarithm of
// 30 instructions for each probability. The bits of a bfloat16 are those of a float64 but for their place and the bias
// of the exponent, so that one multiplication and addition of integers converts it. It has seven bits of mantissa, so
// that log(2^e (1 + m / 128)) is e log(2) and one of 128 numbers in shared memory. A lane has up to eight domains of a
// point, one load of 16 bytes, and loads the rows of eight neighbours before it adds the first; the edges of its next
// point are loaded meanwhile.

#include <warpwise/core/float4.cuh>

#include "block_sum.cuh"

constexpr int kEdges = 8;  // of a point, in flight
constexpr int kMantissas = 128;
constexpr double kLn2 = 0.693147180559945309, kLargest = 1e30;

// OWN probabilities in bfloat16; zeros and denormal numbers are converted to less than 2^-126.
template <int OWN>
struct Halves {
  warpwise::Vector<unsigned, OWN / 2> words;

  __device__ unsigned bits(int i) const { return i % 2 ? words.at[i / 2] >> 16 : words.at[i / 2] & 0xffffu; }
  // The exponent of float64 is 896 more. Infinities and NaN become numbers from 2^128 on.
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
    for (int e = 0; e < kEdges; ++e) at[e] = first + e < stop ? columns[first + e] : point;
  }
};

// The arguments are those of k01, without interaction. Rows of q are aligned to OWN elements; lanes, a power of two and
// at most 32, have OWN of them each, of which those from `domains` on are not used. FIELDS: external_row is not 0.
// Grid: (any, restarts) of kThreads.
template <int OWN, bool FIELDS>
__global__ void __launch_bounds__(kThreads, 2) potts_bound_exact_halves(const __nv_bfloat16* q, const int* rowptr,
                                                                        const int* columns, const float* weights,
                                                                        const float* beta, const float* external,
                                                                        double* partials, int n, int restarts,
                                                                        int domains, int pitch, long long external_row,
                                                                        long long external_restart, int lanes) {
  using Row = Halves<OWN>;
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
          const int edge = edges.start + first + e;
          const double weight = edge >= edges.stop ? 0.0f : weights ? weights[edge] : 1.0f;
#pragma unroll
          for (int i = 0; i < OWN; ++i) support[i] += weight * near[e][i];
        }
      }
    }
    double terms = 0.0;
#pragma unroll
    for (int i = 0; i < OWN; ++i) {
      if (FIELDS) fields[i] = i < valid ? field[point * external_row + i] : 0.0f;
      const unsigned bits = values.bits(i);
      const double logarithm = (static_cast<int>(bits >> 7) - 127) * kLn2 + logs[bits % kMantissas];
      if (i < valid && bits > 0) terms += values[i] * (fields[i] + strength * support[i] - logarithm);
    }
    if (base + team < n) sum += fabs(terms) < kLargest ? terms : nan("");
    edges = next;
    next.load_bounds(rowptr, base + team + 2 * step, n);
  }
  store_block_sum(sum, partials);
}
