// A team of lanes per point, four domains per lane, as in potts_em_step: one pass over q, and no intermediate array.
//
// In float64, so that bounds of millions of points can be compared.

#include <warpwise/core/float4.cuh>

#include "block_sum.cuh"

// q: (n, restarts, domains) of float or __nv_bfloat16, in rows that begin `pitch` elements after each other. external:
// rows of domains, external_row apart from point to point, external_restart from restart to restart. weights and
// interaction: (domains, domains) may be null. partials: (gridDim.x, restarts) = each block's sums over points below
// `n`. `lanes`, a power of two and at most 32, cover the domains. Grid: (any, restarts) of kThreads.
template <class Q>
__global__ void __launch_bounds__(kThreads) potts_bound_lanes_per_point(
    const Q* q, const int* rowptr, const int* columns, const float* weights, const float* beta, const float* external,
    const float* interaction, double* partials, int n, int restarts, int domains, int pitch, long long external_row,
    long long external_restart, int lanes) {
  __shared__ double supports[kThreads * 4];
  const int restart = blockIdx.y, row = restarts * pitch;
  const int lane = threadIdx.x % lanes, team = threadIdx.x / lanes, teams = kThreads / lanes;
  const int own = 4 * lane, valid = domains - own;
  const bool vector = domains % 4 == 0 && pitch % 4 == 0 && warpwise::aligned(q, external);
  const auto load = [=](const auto* from, int count) {
    return vector ? warpwise::load4<true>(from, count) : warpwise::load4<false>(from, count);
  };
  const double strength = 0.5 * beta[restart];
  double sum = 0.0;
  const long long step = static_cast<long long>(gridDim.x) * teams;
  for (long long base = static_cast<long long>(blockIdx.x) * teams; base < n; base += step) {
    const long long point = base + team;
    const bool inside = point < n;
    const int here = inside ? valid : 0;  // 0 for a point past the end
    const Q* const rows = q + restart * pitch + own;
    const warpwise::Float4 values = load(rows + point * row, here);
    double support[4] = {};
    const int last = inside ? rowptr[point + 1] : 0;
#pragma unroll 4
    for (int edge = inside ? rowptr[point] : 0; edge < last; ++edge) {
      const warpwise::Float4 near = load(rows + static_cast<long long>(columns[edge]) * row, here);
      const double weight = weights ? weights[edge] : 1.0f;
#pragma unroll
      for (int e = 0; e < 4; ++e) support[e] += weight * near.at[e];
    }
    if (interaction) {
      __syncwarp();
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        supports[4 * threadIdx.x + e] = support[e];
        support[e] = 0.0;
      }
      __syncwarp();
      for (int l = 0; l < domains; ++l) {
        const double near = supports[4 * team * lanes + l];
#pragma unroll
        for (int e = 0; e < 4; ++e) support[e] += near * interaction[l * domains + min(own + e, domains - 1)];
      }
    }
    const warpwise::Float4 field = load(external + point * external_row + restart * external_restart + own, here);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const double p = e < here ? values.at[e] : 0.0f;
      if (p > 0.0) sum += p * (field.at[e] + strength * support[e] - log(p));
    }
  }
  store_block_sum(sum, partials);
}

// bound: (restarts) = the sums over the rows of partials: (rows, restarts), in a fixed order. Grid: restarts warps.
__global__ void __launch_bounds__(32) potts_bound_add_partials(const double* partials, double* bound, int rows,
                                                               int restarts) {
  double sum = 0.0;
  for (int r = threadIdx.x; r < rows; r += 32) sum += partials[static_cast<long long>(r) * restarts + blockIdx.x];
  sum = warpwise::warp_reduce<warpwise::DoubleSum>(sum);
  if (threadIdx.x == 0) bound[blockIdx.x] = sum;
}
