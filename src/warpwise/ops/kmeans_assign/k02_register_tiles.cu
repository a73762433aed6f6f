// Points and centroids in shared memory; a thread multiplies four points with four centroids, and keeps the best.
//
// |x - c|^2 = |x|^2 - 2 (x c - |c|^2 / 2): the nearest centroid has the largest score x c - |c|^2 / 2. Eight 16-byte
// loads from shared memory feed 64 FMAs. `lanes` adjacent lanes share four points and divide the centroids among them;
// shuffles find the best of their scores, so the (n, clusters) matrix of scores is never stored. The next tile of
// points is copied while one is computed.

#include <warpwise/sm80/copy_rows.cuh>

#include "best.cuh"

constexpr int kThreads = 128;
constexpr int kPoints = 4;  // per thread

// x: (n, width), centroids: (restarts, clusters, width). labels: (restarts, n); distances: (restarts, n) squared, or
// null. `lanes`: a power of two, at most 32. A tile has kThreads / lanes * kPoints points; `chunk` centroids, a
// multiple of 4 lanes, are in shared memory at a time. Shared: (2 points + chunk) * tile_stride(width) + chunk floats.
// Grid: (any, restarts) of kThreads.
__global__ void __launch_bounds__(kThreads) kmeans_assign_register_tiles(const float* x, const float* centroids,
                                                                         int* labels, float* distances, long long n,
                                                                         int width, int clusters, int lanes,
                                                                         int chunk) {
  extern __shared__ __align__(16) float shared[];
  const int stride = warpwise::tile_stride(width), teams = kThreads / lanes, points = teams * kPoints;
  float* const rows = shared + 2 * points * stride;  // behind two tiles of points
  float* const half_norms = rows + chunk * stride;
  const int lane = threadIdx.x % lanes, team = threadIdx.x / lanes;
  centroids += static_cast<long long>(blockIdx.y) * clusters * width;
  labels += blockIdx.y * n;
  if (distances) distances += blockIdx.y * n;

  const long long step = static_cast<long long>(gridDim.x) * points;
  long long first = static_cast<long long>(blockIdx.x) * points;
  bool loaded = false;
  warpwise::copy_rows_async(shared, x, n, width, first, points, stride);
  __pipeline_commit();
  for (int buffer = 0; first < n; first += step, buffer ^= 1) {
    const float* const tile = shared + buffer * points * stride;
    if (first + step < n) {
      float* const next = shared + (buffer ^ 1) * points * stride;
      warpwise::copy_rows_async(next, x, n, width, first + step, points, stride);
    }
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    Best best[kPoints];
#pragma unroll
    for (int i = 0; i < kPoints; ++i) best[i] = {warpwise::minus_infinity(), 0};
    for (int start = 0; start < clusters; start += chunk) {
      if (!loaded) {
        if (start > 0) __syncthreads();  // the previous chunk has been read
        warpwise::load_rows(rows, centroids, clusters, width, start, chunk, stride);
        __syncthreads();
        for (int c = threadIdx.x; c < chunk; c += kThreads) {
          float norm = 0.0f;
          for (int d = 0; d < width; ++d) norm += rows[c * stride + d] * rows[c * stride + d];
          half_norms[c] = start + c < clusters ? norm / 2 : -warpwise::minus_infinity();
        }
        __syncthreads();
        loaded = chunk >= clusters;
      }
      for (int group = 0; group < chunk && start + group < clusters; group += 4 * lanes) {
        // Lane l has centroids group + l + j * lanes: adjacent lanes read adjacent rows.
        float scores[kPoints][4] = {};
        const int own = group + lane;
        warpwise::add_products(scores, tile + team * stride, teams * stride, rows + own * stride, lanes * stride,
                               width);
#pragma unroll
        for (int i = 0; i < kPoints; ++i) {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const int cluster = own + j * lanes;
            best[i].take(scores[i][j] - half_norms[cluster], start + cluster);
          }
        }
      }
    }

#pragma unroll
    for (int i = 0; i < kPoints; ++i) {
      for (int distance = lanes / 2; distance > 0; distance /= 2) {
        const float score = __shfl_xor_sync(0xffffffffu, best[i].score, distance);
        const int cluster = __shfl_xor_sync(0xffffffffu, best[i].cluster, distance);
        best[i].take(score, cluster);
      }
      const int row = team + i * teams;
      const long long point = first + row;
      if (lane != 0 || point >= n) continue;
      labels[point] = best[i].cluster;
      if (!distances) continue;
      float norm = 0.0f;
      for (int d = 0; d < width; ++d) norm += tile[row * stride + d] * tile[row * stride + d];
      const float squared = norm - 2 * best[i].score;
      distances[point] = squared < 0.0f ? 0.0f : squared;
    }
    __syncthreads();  // the tile has been read: the next copy may overwrite it
  }
  __pipeline_wait_prior(0);
}
