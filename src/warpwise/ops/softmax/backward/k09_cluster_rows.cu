// Rows too long for the registers of one block, in those of a cluster: both read once, where k04 reads them twice.
//
// Each block of the cluster holds a part of both rows, and reads the sums of dy * y of the other parts from their
// shared memory. sm_90 and later.

#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/row_tile.cuh>

#include "../cluster.cuh"

// dy, y, dx: (rows, columns), contiguous; a block has `share` columns, a multiple of those of a vector and at most
// THREADS * VECTORS vectors. Grid: rows * CLUSTER blocks of THREADS.
template <class T, int THREADS, int VECTORS, bool ALIGNED, int CLUSTER>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) __cluster_dims__(CLUSTER, 1, 1)
    softmax_backward_cluster_rows(const T* dy, const T* y, T* dx, int columns, int share) {
  using Tile = warpwise::RowTile<T, THREADS, ALIGNED>;
  static_assert(VECTORS <= 4, "more than 64 bytes of both rows in 64 registers would spill");
  __shared__ float warp_values[warpwise::kWarp];
  const T zero = warpwise::from_float<T>(0.0f);
  const int first = static_cast<int>(blockIdx.x % CLUSTER) * share, count = max(0, min(share, columns - first));
  const long long start = static_cast<long long>(blockIdx.x / CLUSTER) * columns + first;
  warpwise::wait_for_previous_kernel();

  typename Tile::Vector gradient[VECTORS], probability[VECTORS];
#pragma unroll
  for (int step = 0; step < VECTORS; ++step) {
    gradient[step] = Tile::load(dy + start, count, step, zero);
    probability[step] = Tile::load(y + start, count, step, zero);
  }
  float dot = 0.0f;
#pragma unroll
  for (int step = 0; step < VECTORS; ++step) {
#pragma unroll
    for (int e = 0; e < Tile::kElements; ++e) {
      dot += warpwise::to_float(gradient[step].at[e]) * warpwise::to_float(probability[step].at[e]);
    }
  }
  dot = warpwise::block_reduce<warpwise::Sum, THREADS>(dot, warp_values);
  const auto add = [](float2 a, float2 b) { return make_float2(a.x + b.x, 0.0f); };
  dot = combine_blocks<CLUSTER>(make_float2(dot, 0.0f), add).x;

#pragma unroll
  for (int step = 0; step < VECTORS; ++step) {
    typename Tile::Vector result;
#pragma unroll
    for (int e = 0; e < Tile::kElements; ++e) {
      const float difference = warpwise::to_float(gradient[step].at[e]) - dot;
      result.at[e] = warpwise::from_float<T>(warpwise::to_float(probability[step].at[e]) * difference);
    }
    Tile::store(dx + start, count, step, result);
  }
  warpwise::sm90::cluster_wait();
}
