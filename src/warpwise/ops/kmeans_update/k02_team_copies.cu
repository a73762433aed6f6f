// A copy of the sums for each team of lanes, in shared memory: no atomics, and a fixed order of additions.
//
// A team of lanes adds one point after another to its own copy, four features per lane. The order of the additions
// depends on the size of the grid alone, so two runs give the same bits. The copies of a block are added in order, and
// a second launch adds the blocks' sums.

#include <warpwise/core/float4.cuh>
#include <warpwise/core/numeric.cuh>

constexpr int kUnroll = 4;  // points per team whose loads are in flight

// x: (n, width), labels: (restarts, n). partials: (gridDim.x, restarts, clusters, width) and counts: (gridDim.x,
// restarts, clusters) = each block's sums. Grid: (any, restarts). Block: teams of `lanes` adjacent lanes, a power of
// two, at most 32. Shared: teams * clusters * (stride + 1) floats, with `stride` the width rounded up to a multiple of
// four. Labels outside [0, clusters) are left out.
__global__ void __launch_bounds__(256) kmeans_update_team_copies(const float* x, const int* labels, float* partials,
                                                                 int* counts, long long n, int width, int clusters,
                                                                 int lanes) {
  extern __shared__ __align__(16) float shared[];
  const int stride = (width + 3) / 4 * 4, teams = blockDim.x / lanes;
  const int lane = threadIdx.x % lanes, team = threadIdx.x / lanes;
  float* const sums = shared + team * clusters * stride;
  int* const team_counts = reinterpret_cast<int*>(shared + teams * clusters * stride) + team * clusters;
  const bool vector = width % 4 == 0 && warpwise::aligned(x);
  labels += blockIdx.y * n;
  const long long row = static_cast<long long>(blockIdx.x) * gridDim.y + blockIdx.y;
  counts += row * clusters;
  partials += row * clusters * width;

  for (int i = lane; i < clusters * stride / 4; i += lanes) reinterpret_cast<warpwise::Float4*>(sums)[i] = {};
  for (int i = lane; i < clusters; i += lanes) team_counts[i] = 0;
  __syncwarp();  // each lane sets to zero elements to which other lanes add

  const long long share = warpwise::cdiv<long long>(n, gridDim.x);
  const long long begin = blockIdx.x * share;
  const long long end = begin + share < n ? begin + share : n;
  for (long long first = begin + team; first < end; first += static_cast<long long>(kUnroll) * teams) {
    int label[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const long long point = first + static_cast<long long>(u) * teams;
      label[u] = point < end ? labels[point] : -1;
      if (static_cast<unsigned>(label[u]) >= static_cast<unsigned>(clusters)) label[u] = -1;
    }
    for (int column = 4 * lane; column < width; column += 4 * lanes) {
      warpwise::Float4 values[kUnroll];
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        const float* const from = x + (first + static_cast<long long>(u) * teams) * width + column;
        const int valid = label[u] < 0 ? 0 : width - column;
        values[u] = vector ? warpwise::load4<true>(from, valid) : warpwise::load4<false>(from, valid);
      }
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        if (label[u] < 0) continue;
        warpwise::Float4* const to = reinterpret_cast<warpwise::Float4*>(sums + label[u] * stride + column);
        warpwise::Float4 total = *to;
#pragma unroll
        for (int e = 0; e < 4; ++e) total.at[e] += values[u].at[e];
        *to = total;
      }
    }
    if (lane == 0) {
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) {
        if (label[u] >= 0) ++team_counts[label[u]];
      }
    }
  }
  __syncthreads();

  const int size = clusters * width;
  for (int i = threadIdx.x; i < size; i += blockDim.x) {
    const int cluster = i / width, at = cluster * stride + i - cluster * width;
    float total = 0.0f;
    for (int t = 0; t < teams; ++t) total += shared[t * clusters * stride + at];
    partials[i] = total;
  }
  const int* const all_counts = reinterpret_cast<const int*>(shared + teams * clusters * stride);
  for (int cluster = threadIdx.x; cluster < clusters; cluster += blockDim.x) {
    int total = 0;
    for (int t = 0; t < teams; ++t) total += all_counts[t * clusters + cluster];
    counts[cluster] = total;
  }
}

// sums: (size) and counts: (clusters) = the sums over the first dimension of partials: (rows, size) and partial_counts:
// (rows, clusters), in a fixed order. A warp adds every eighth row of 32 adjacent elements, sums first, then counts.
// Block: 256. Grid: cdiv(size + clusters, 32).
__global__ void __launch_bounds__(256) kmeans_update_add_partials(const float* partials, const int* partial_counts,
                                                                  float* sums, int* counts, int rows, int size,
                                                                  int clusters) {
  constexpr int kWarps = 8;
  __shared__ float warp_sums[kWarps][32];
  __shared__ int warp_counts[kWarps][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const long long i = static_cast<long long>(blockIdx.x) * 32 + lane, cluster = i - size;
  float sum = 0.0f;
  int count = 0;
  if (i < size) {
#pragma unroll 8
    for (int row = warp; row < rows; row += kWarps) sum += partials[static_cast<long long>(row) * size + i];
  } else if (cluster < clusters) {
#pragma unroll 8
    for (int row = warp; row < rows; row += kWarps) {
      count += partial_counts[static_cast<long long>(row) * clusters + cluster];
    }
  }
  warp_sums[warp][lane] = sum;
  warp_counts[warp][lane] = count;
  __syncthreads();
  if (warp > 0) return;
#pragma unroll
  for (int w = 1; w < kWarps; ++w) {
    sum += warp_sums[w][lane];
    count += warp_counts[w][lane];
  }
  if (i < size) {
    sums[i] = sum;
  } else if (cluster < clusters) {
    counts[cluster] = count;
  }
}
