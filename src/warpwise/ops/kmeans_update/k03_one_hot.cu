// A product with the memberships by tensor cores: the sums stay in registers, whatever the order of the labels.
//
// sums = (clusters, points) memberships times (points, width) features. A membership is 1 or 0, made from the label in
// a register, and exact in TF32; a feature is the sum of two TF32 numbers, so two products keep float32's accuracy. A
// warp has all clusters and 32 features, which it loads from global memory directly to fragments. It never waits for
// an earlier addition to the same cluster, and copies of the sums need no shared memory. Tensor cores round sums
// towards zero, so after some points a warp adds its sums to its row of partial sums, with rounding to nearest.

#include <warpwise/core/float4.cuh>
#include <warpwise/sm80/mma.cuh>
#include <warpwise/sm80/tf32.cuh>

constexpr int kSlab = 32;   // features of a warp
constexpr int kMost = 512;  // points that a warp adds on tensor cores before it adds their sums to its row
// Steps of eight points whose loads are in flight, and resident blocks: a lane has 16 sums per tile of 16 clusters.
constexpr int steps_of(int tiles) { return tiles > 4 ? 2 : 4; }
constexpr int blocks_an_sm(int tiles) { return tiles > 3 ? 2 : 3; }

// Eight points: lane 4 g + t has features column(g, e) of points 2 t and 2 t + 1.
template <int VEC>
struct Points {
  float values[2][4];
  int labels[2];

  // Four features in groups of VEC adjacent ones, so that eight lanes load adjacent addresses.
  static __device__ int column(int group, int e) { return e / VEC * 8 * VEC + group * VEC + e % VEC; }

  // Rows past `end` have no label. Labels outside [0, clusters) equal no cluster.
  __device__ void load(const float* x, const int* of, long long first, long long end, int width, int slab, int group,
                       int index) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const long long point = first + 2 * index + i;
      labels[i] = point < end ? of[point] : -1;
#pragma unroll
      for (int e = 0; e < 4; e += VEC) {
        const int at = slab + column(group, e);
        warpwise::Vector<float, VEC> loaded = {};
        if (point < end && at < width) {
          loaded = *reinterpret_cast<const warpwise::Vector<float, VEC>*>(x + point * width + at);
        }
#pragma unroll
        for (int v = 0; v < VEC; ++v) values[i][e + v] = loaded.at[v];
      }
    }
  }
};

// x: (n, width), labels: (restarts, n). partials: (rows, restarts, clusters, width) and counts: (rows, restarts,
// clusters) = the sums of each group of warps, rows = gridDim.x * blockDim.x / (32 * slabs). TILES * 16 is at least
// clusters. VEC divides width, and x is aligned to VEC floats. A group of `slabs` warps has adjacent slabs of 32
// features of the same points. Grid: (any, restarts, slabs of all features / `slabs`). Block: at most 128, a multiple
// of 32 * slabs. Labels outside [0, clusters) are left out.
template <int TILES, int VEC>
__global__ void __launch_bounds__(128, blocks_an_sm(TILES)) kmeans_update_one_hot(const float* x, const int* labels,
                                                                                  float* partials, int* counts,
                                                                                  long long n, int width, int clusters,
                                                                                  int slabs) {
  constexpr int kSteps = steps_of(TILES);
  __shared__ int all_numbers[4 * 16 * TILES];  // points of each cluster, by group of warps
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, index = lane % 4;
  const int slab = (static_cast<int>(blockIdx.z) * slabs + warp % slabs) * kSlab;
  const int groups = blockDim.x / 32 / slabs, own = warp / slabs;  // groups of warps divide the points
  const bool counts_points = blockIdx.z == 0 && warp % slabs == 0;
  int* const numbers = all_numbers + own * 16 * TILES;
  labels += blockIdx.y * n;
  const long long row = (static_cast<long long>(blockIdx.x) * groups + own) * gridDim.y + blockIdx.y;
  counts += row * clusters;
  partials += row * clusters * width;
  for (int i = threadIdx.x; i < 4 * 16 * TILES; i += blockDim.x) all_numbers[i] = 0;
  __syncthreads();

  float sums[TILES][4][4] = {};
  const long long step = static_cast<long long>(gridDim.x) * groups * 8 * kSteps;
  long long first = (static_cast<long long>(blockIdx.x) * groups + own) * 8 * kSteps;
  Points<VEC> next[kSteps];
  const auto load = [&](long long from) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s) next[s].load(x, labels, from + 8 * s, n, width, slab, group, index);
  };
  load(first);
  bool more = false;  // true once the row of partial sums has been written
  do {
#pragma unroll 1
    for (int added = 0; first < n && added < kMost; first += step, added += 8 * kSteps) {
      Points<VEC> now[kSteps];
#pragma unroll
      for (int s = 0; s < kSteps; ++s) now[s] = next[s];
      load(first + step);
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        if (counts_points && group == 0) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const int label = now[s].labels[i];
            if (static_cast<unsigned>(label) < static_cast<unsigned>(clusters)) atomicAdd(numbers + label, 1);
          }
        }
        unsigned rest[2][4];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int e = 0; e < 4; ++e) rest[i][e] = warpwise::rest_of_tf32(now[s].values[i][e]);
        }
        // Index t of the inner dimension is point 2 t, index t + 4 is point 2 t + 1.
#pragma unroll
        for (int m = 0; m < TILES; ++m) {
          unsigned member[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            member[i] = now[s].labels[i / 2] - group == 16 * m + i % 2 * 8 ? __float_as_uint(1.0f) : 0u;
          }
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            warpwise::mma::mma_sync(sums[m][e], member, rest[0][e], rest[1][e], 0.0f);
            warpwise::mma::mma_sync(sums[m][e], member, __float_as_uint(now[s].values[0][e]),
                                    __float_as_uint(now[s].values[1][e]), 0.0f);
          }
        }
      }
    }
    // Column 2 t + i of tile e is the feature column(2 t + i, e), which the lanes of group 2 t + i have loaded.
#pragma unroll
    for (int m = 0; m < TILES; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int cluster = 16 * m + group + i / 2 * 8;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int column = slab + Points<VEC>::column(2 * index + i % 2, e);
          float* const to = partials + static_cast<long long>(cluster) * width + column;
          if (cluster < clusters && column < width) *to = more ? *to + sums[m][e][i] : sums[m][e][i];
          sums[m][e][i] = 0.0f;
        }
      }
    }
    more = true;
  } while (first < n);
  __syncthreads();
  if (!counts_points) return;
  for (int i = lane; i < clusters; i += 32) counts[i] = numbers[i];
}
