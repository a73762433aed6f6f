// One launch and no atomics: a cluster's blocks share a row, or columns, and its first block adds their sums from
// distributed shared memory. k06 and k08 take a second launch for it, k09 a semaphore and another read from L2.
//
// The order of the additions is fixed. sm_90 and later.

#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/cluster.cuh>

#include "row_sum.cuh"

// The sum of `own` of all blocks of the cluster, in block 0; of_block[at] is this block's. All threads call this.
template <int CLUSTER>
__device__ float sum_of_blocks(float (*of_block)[4], int at, bool adds) {
  float total = 0.0f;
  warpwise::sm90::cluster_sync();
  if (adds && warpwise::sm90::cluster_ctarank() == 0) {
    float found[CLUSTER][4];
#pragma unroll
    for (int rank = 0; rank < CLUSTER; ++rank)
      warpwise::sm90::ld_shared_cluster_v4(found[rank], warpwise::shared_address(of_block[at]), rank);
#pragma unroll
    for (int rank = 0; rank < CLUSTER; ++rank) total += found[rank][0];
  }
  warpwise::sm90::cluster_sync_relaxed();  // a block must not exit while the first may read its sums
  return total;
}

__device__ inline void publish(float (&slot)[4], float sum) {
  slot[0] = sum;
  slot[1] = slot[2] = slot[3] = 0.0f;  // ld_shared_cluster_v4 reads four floats
}

// x: (rows, columns), contiguous; sums: (rows,). Block: THREADS. Grid: (rows, CLUSTER).
template <class T, class R, int THREADS, int CLUSTER>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) __cluster_dims__(1, CLUSTER, 1)
    sum_cluster_rows(const T* x, R* sums, long long columns) {
  __shared__ float warp_values[warpwise::kWarp];
  __shared__ __align__(16) float of_block[1][4];
  warpwise::wait_for_previous_kernel();
  float sum = sum_of_thread<T, THREADS>(x + blockIdx.x * columns, columns, blockIdx.y, CLUSTER);
  sum = warpwise::team_reduce<warpwise::Sum, THREADS>(sum, warp_values);
  if (threadIdx.x == 0) publish(of_block[0], sum);
  const float total = sum_of_blocks<CLUSTER>(of_block, 0, threadIdx.x == 0);
  if (blockIdx.y == 0 && threadIdx.x == 0) sums[blockIdx.x] = warpwise::from_float<R>(total);
}

// x: (columns / inner, length, inner), contiguous; sums: (columns,). Column c begins at element (c / inner) * length *
// inner + c % inner. Block: (width, height), up to THREADS. Grid: (cdiv(columns, width), CLUSTER); a block has `share`
// elements of each of its columns.
template <class T, class R, int THREADS, int VALUES, int CLUSTER>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) __cluster_dims__(1, CLUSTER, 1)
    sum_cluster_columns(const T* x, R* sums, long long columns, long long inner, int length, int share) {
  constexpr int kWidth = 64;
  __shared__ float of_threads[THREADS];
  __shared__ __align__(16) float of_block[kWidth][4];
  const int width = blockDim.x, height = blockDim.y, line = threadIdx.y, thread = line * width + threadIdx.x;
  const long long column = static_cast<long long>(blockIdx.x) * width + threadIdx.x;
  const int last = column < columns ? min(length, (static_cast<int>(blockIdx.y) + 1) * share) : 0;
  int row = static_cast<int>(blockIdx.y) * share + line;
  const T* from = x + row * inner + column;
  if (inner < columns) from += column / inner * (length - 1) * inner;
  const long long step = height * inner;
  float sum = 0.0f;
  warpwise::wait_for_previous_kernel();
#pragma unroll 1  // unrolling a loop of unknown stride needs a division before the first load
  while (row < last) {
    float values[VALUES];
#pragma unroll
    for (int v = 0; v < VALUES; ++v, row += height, from += step) {
      values[v] = row < last ? warpwise::to_float(*from) : 0.0f;
    }
#pragma unroll
    for (int v = 0; v < VALUES; ++v) sum += values[v];
  }
  of_threads[thread] = sum;
  __syncthreads();
  if (line == 0) {
    float of_column = 0.0f;
#pragma unroll 8
    for (int other = 0; other < height; ++other) of_column += of_threads[other * width + threadIdx.x];
    publish(of_block[threadIdx.x], of_column);
  }
  const float total = sum_of_blocks<CLUSTER>(of_block, threadIdx.x, line == 0);
  if (blockIdx.y == 0 && line == 0 && column < columns) sums[column] = warpwise::from_float<R>(total);
}
