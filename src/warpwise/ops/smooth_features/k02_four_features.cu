// Four adjacent features per lane: a quarter of the loads, each of 16 bytes, and four neighbours in flight.
//
// A team of lanes takes a point: its lanes read the same rowptr and columns, which one transaction serves.

#include <warpwise/core/float4.cuh>

constexpr int kThreads = 256;

// values, out: (n, width); rowptr: (n + 1), columns, weights: (edges), weights may be null; scale: (n). `lanes`
// adjacent lanes, a power of two, take a point. Block: kThreads. Grid: any.
__global__ void __launch_bounds__(kThreads) smooth_four_features(const float* values, const int* rowptr,
                                                                 const int* columns, const float* weights,
                                                                 const float* scale, float* out, long long n, int width,
                                                                 int lanes) {
  const int lane = threadIdx.x % lanes, teams = kThreads / lanes;
  const bool vector = width % 4 == 0 && warpwise::aligned(values, out);
  const auto load = [=](const float* from, int valid) {
    return vector ? warpwise::load4<true>(from, valid) : warpwise::load4<false>(from, valid);
  };
  const long long step = static_cast<long long>(gridDim.x) * teams;
  for (long long i = static_cast<long long>(blockIdx.x) * teams + threadIdx.x / lanes; i < n; i += step) {
    const int begin = rowptr[i], end = rowptr[i + 1];
    const float factor = scale[i];
    for (int column = 4 * lane; column < width; column += 4 * lanes) {
      const int valid = width - column;
      warpwise::Float4 sum = load(values + i * width + column, valid);
#pragma unroll 4
      for (int edge = begin; edge < end; ++edge) {
        const float weight = weights ? weights[edge] : 1.0f;
        const warpwise::Float4 near = load(values + static_cast<long long>(columns[edge]) * width + column, valid);
#pragma unroll
        for (int e = 0; e < 4; ++e) sum.at[e] += weight * near.at[e];
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) sum.at[e] *= factor;
      if (vector)
        warpwise::store4<true>(out + i * width + column, sum.at, valid);
      else
        warpwise::store4<false>(out + i * width + column, sum.at, valid);
    }
  }
}
