// A team of lanes per point, four domains per lane: scores, neighbours and powers are read and computed once.
//
// All lanes of a team read the label of a neighbour together. A scan over the team gives the cumulative probabilities.

#include <warpwise/core/float4.cuh>

constexpr int kThreads = 256;
constexpr unsigned kAllLanes = 0xffffffffu;

// The arguments of gibbs_thread_per_point (k01). LANES * 4 is at least domains. Grid: any number of blocks of kThreads.
template <int LANES>
__global__ void __launch_bounds__(kThreads) gibbs_lanes_per_point(const float* scores, const float* draws, int* labels,
                                                                  int* visits, const int* rowptr, const int* columns,
                                                                  const float* weights, const float* beta,
                                                                  const float* interaction, int begin, int end,
                                                                  int domains) {
  constexpr int kTeams = kThreads / LANES;
  const int part = threadIdx.x % LANES, team = threadIdx.x / LANES, own = 4 * part, valid = domains - own;
  const bool vector = domains % 4 == 0 && warpwise::aligned(scores);
  const float strength = beta[0];
  const int step = gridDim.x * kTeams;
  for (int base = begin + blockIdx.x * kTeams; base < end; base += step) {
    const int point = base + team;
    const bool inside = point < end;
    const long long row = static_cast<long long>(point) * domains;
    const float* const from = scores + row + own;
    const int here = inside ? valid : 0;
    const warpwise::Float4 score = vector ? warpwise::load4<true>(from, here) : warpwise::load4<false>(from, here);
    const int first = inside ? rowptr[point] : 0, last = inside ? rowptr[point + 1] : 0;
    float near[4] = {};
    for (int start = first; start < last; start += 8) {
      int neighbours[8];
#pragma unroll
      for (int n = 0; n < 8; ++n) neighbours[n] = start + n < last ? columns[start + n] : -1;
#pragma unroll
      for (int n = 0; n < 8; ++n) neighbours[n] = neighbours[n] >= 0 ? labels[neighbours[n]] : -1;
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        const int label = neighbours[n];
        if (label < 0) continue;
        const float weight = weights ? weights[start + n] : 1.0f;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (interaction)
            near[e] += e < valid ? weight * interaction[label * domains + own + e] : 0.0f;
          else
            near[e] += label == own + e ? weight : 0.0f;
        }
      }
    }

    float cumulated[4], highest = warpwise::minus_infinity();
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      cumulated[e] = e < valid ? score.at[e] + strength * near[e] : warpwise::minus_infinity();
      highest = fmaxf(highest, cumulated[e]);
    }
#pragma unroll
    for (int distance = LANES / 2; distance > 0; distance /= 2) {
      highest = fmaxf(highest, __shfl_xor_sync(kAllLanes, highest, distance));
    }
    float sum = 0.0f;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      sum += expf(cumulated[e] - highest);
      cumulated[e] = sum;
    }
    float before = sum;  // the sum over the lanes up to this one
#pragma unroll
    for (int distance = 1; distance < LANES; distance *= 2) {
      const float value = __shfl_up_sync(kAllLanes, before, distance, LANES);
      if (part >= distance) before += value;
    }
    const float total = __shfl_sync(kAllLanes, before, LANES - 1, LANES);
    const float target = (inside ? draws[point] : 0.0f) * total;
    before -= sum;
    int label = 0;
#pragma unroll
    for (int e = 0; e < 4; ++e) label += e < valid && before + cumulated[e] <= target;
#pragma unroll
    for (int distance = LANES / 2; distance > 0; distance /= 2) {
      label += __shfl_xor_sync(kAllLanes, label, distance);
    }
    label = min(label, domains - 1);
    if (inside && part == 0) {
      labels[point] = label;
      if (visits) ++visits[row + label];
    }
  }
}
