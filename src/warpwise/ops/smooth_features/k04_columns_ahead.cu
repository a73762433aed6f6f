// Columns of the next point while the rows of this one arrive: eight rows in flight instead of a chain of loads.
//
// In k02 a team of lanes waits for rowptr, then for columns, then for four rows, twice. Here the lanes of a team share
// the first eight columns of a point. Before they load its rows, they load the columns of their next point and the
// bounds of the point after it, so that only the rows of a point are waited for.

#include <warpwise/core/vector.cuh>

constexpr int kThreads = 256, kEdges = 8;  // kEdges: columns of a point that are loaded ahead
constexpr unsigned kAllLanes = 0xffffffffu;

// Four elements of a row for each of LANES lanes: parts of VECTOR adjacent ones, VECTOR * LANES elements apart, so that
// adjacent lanes have adjacent parts.
template <int LANES, int VECTOR>
struct RowParts {
  using Part = warpwise::Vector<float, VECTOR>;
  static constexpr int kParts = 4 / VECTOR, kStep = VECTOR * LANES;
  Part parts[kParts];

  // The first `valid` of the elements from the lane's first one on exist; the others are zero.
  __device__ void load(const float* from, int valid) {
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      parts[p] = {};
      if (p * kStep < valid) parts[p] = *reinterpret_cast<const Part*>(from + p * kStep);
    }
  }
  __device__ void add(float weight, const RowParts& row) {
#pragma unroll
    for (int e = 0; e < 4; ++e) parts[e / VECTOR].at[e % VECTOR] += weight * row.parts[e / VECTOR].at[e % VECTOR];
  }
  __device__ void store(float* to, float factor, int valid) const {
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      Part part;
#pragma unroll
      for (int k = 0; k < VECTOR; ++k) part.at[k] = parts[p].at[k] * factor;
      if (p * kStep < valid) *reinterpret_cast<Part*>(to + p * kStep) = part;
    }
  }
};

// values, out: (n, width); rowptr: (n + 1), columns, weights: (edges), weights null unless WEIGHTED; scale: (n). A team
// of LANES, a power of two, takes a point, and a lane four features at a time. VECTOR: 1, 2 or 4, divides width, and
// values and out are aligned to so many elements. Block: kThreads. Grid: any.
template <int LANES, int VECTOR, bool WEIGHTED>
__global__ void __launch_bounds__(kThreads) smooth_columns_ahead(const float* values, const int* rowptr,
                                                                 const int* columns, const float* weights,
                                                                 const float* scale, float* out, long long n,
                                                                 int width) {
  constexpr int kTeams = kThreads / LANES, kEach = LANES < kEdges ? kEdges / LANES : 1;
  struct Edges {
    int begin, end, columns[kEach];
    float weights[kEach];
  };
  const int lane = threadIdx.x % LANES;
  const long long step = static_cast<long long>(gridDim.x) * kTeams;
  const auto load_bounds = [&](Edges& edges, long long point) {
    edges.begin = point < n ? rowptr[point] : 0;
    edges.end = point < n ? rowptr[point + 1] : 0;
  };
  const auto load_columns = [&](Edges& edges) {  // column e of a point is in lane e % LANES
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int place = lane + e * LANES, at = edges.begin + place;
      const bool exists = at < edges.end && place < kEdges;
      edges.columns[e] = exists ? columns[at] : 0;
      if (WEIGHTED) edges.weights[e] = exists ? weights[at] : 0.0f;
    }
  };

  long long i = static_cast<long long>(blockIdx.x) * kTeams + threadIdx.x / LANES;
  Edges edges, next;
  load_bounds(edges, i);
  load_bounds(next, i + step);
  load_columns(edges);
  for (long long base = static_cast<long long>(blockIdx.x) * kTeams; base < n; base += step) {
    load_columns(next);
    Edges after;
    load_bounds(after, i + 2 * step);
    const int degree = edges.end - edges.begin;
    const float factor = i < n ? scale[i] : 0.0f;
    for (int first = 0; first < width; first += 4 * LANES) {
      const int column = first + VECTOR * lane, valid = i < n ? width - column : 0;
      RowParts<LANES, VECTOR> rows[kEdges], sum;
      sum.load(values + i * width + column, valid);
#pragma unroll
      for (int e = 0; e < kEdges; ++e) {
        const long long row = __shfl_sync(kAllLanes, edges.columns[e / LANES], e % LANES, LANES);
        rows[e].load(values + row * width + column, e < degree ? valid : 0);
      }
#pragma unroll
      for (int e = 0; e < kEdges; ++e) {
        sum.add(WEIGHTED ? __shfl_sync(kAllLanes, edges.weights[e / LANES], e % LANES, LANES) : 1.0f, rows[e]);
      }
      for (int edge = edges.begin + kEdges; edge < edges.end; ++edge) {
        rows[0].load(values + static_cast<long long>(columns[edge]) * width + column, valid);
        sum.add(WEIGHTED ? weights[edge] : 1.0f, rows[0]);
      }
      sum.store(out + i * width + column, factor, valid);
    }
    edges = next;
    next = after;
    i += step;
  }
}
