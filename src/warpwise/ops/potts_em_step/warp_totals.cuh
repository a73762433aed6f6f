// The sums of k03 over lanes, warps and blocks, in a fixed order.
#pragma once

#include "warp_update.cuh"

// A block's sums, to partials: (size, gridDim.x) at column blockIdx.x. shared: (kWarps, kSums) for moments (features,
// domains), counts and derivatives of each warp.
template <class Plan>
__device__ inline void store_partials(float* partials, float* shared, const float (&moments)[Plan::ROWS][4],
                                      WarpUpdate<Plan>& update, int width) {
  constexpr int kOwn = Plan::kOwn, kMoments = Plan::kMoments;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, index = lane % 4;
  const int domains = update.domains, size = domains * width + domains + 2;
  float* const own_sums = shared + warp * Plan::kSums;
#pragma unroll
  for (int r = 0; r < Plan::ROWS; ++r) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      own_sums[(16 * r + group + i / 2 * 8) * kDomains + 2 * index + i % 2] = moments[r][i];
    }
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    if (distance >= Plan::LANES) {
#pragma unroll
      for (int i = 0; i < kOwn; ++i) update.count[i] += __shfl_xor_sync(kAllLanes, update.count[i], distance);
    }
    update.gradient += __shfl_xor_sync(kAllLanes, update.gradient, distance);
    update.curvature += __shfl_xor_sync(kAllLanes, update.curvature, distance);
  }
  if (lane < Plan::LANES) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) own_sums[kMoments + update.own + i] = update.count[i];
  }
  if (lane == 0) {
    own_sums[kMoments + kDomains] = update.gradient;
    own_sums[kMoments + kDomains + 1] = update.curvature;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < size; i += kThreads) {
    const int domain = i / width, column = i - domain * width, behind = i - domains * width;
    const int from = behind < 0         ? column * kDomains + domain
                     : behind < domains ? kMoments + behind
                                        : kMoments + kDomains + behind - domains;
    float total = 0.0f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) total += shared[w * Plan::kSums + from];
    partials[static_cast<long long>(i) * gridDim.x + blockIdx.x] = total;
  }
}

// After all blocks. partials: (restarts, size, gridDim.x).
__device__ inline void add_partials(const float* partials, float* sums, float* counts, float* derivatives,
                                    int restarts, int domains, int width) {
  const int restart = blockIdx.y, warp = __shfl_sync(kAllLanes, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const int size = domains * width + domains + 2;
  for (int i = blockIdx.x * kWarps + warp; i < size; i += gridDim.x * kWarps) {
    const float* const from = partials + (static_cast<long long>(restart) * size + i) * gridDim.x;
    float total = 0.0f;
#pragma unroll 8
    for (int block = lane; block < gridDim.x; block += 32) total += from[block];
    total = team_sum<32>(total);
    const int moment = domains * width, slope = i - moment - domains;
    if (lane > 0) continue;
    if (i < moment) {
      sums[static_cast<long long>(restart) * moment + i] = total;
    } else if (slope < 0) {
      counts[restart * domains + i - moment] = total;
    } else if (derivatives) {
      derivatives[slope * restarts + restart] = total;
    }
  }
}
