// Rows too long for the registers of one block, in those of a cluster: read once, where k06 reads them twice.
//
// Each block of the cluster holds a part of the row as float32, and reads the maximum and the sum of the other parts
// from their shared memory. sm_90 and later.

#include <warpwise/core/previous_kernel.cuh>
#include <warpwise/core/row_tile.cuh>

#include "../cluster.cuh"

// x, y: (rows, columns), contiguous; a block has `share` columns, a multiple of those of a vector and at most THREADS *
// VECTORS vectors. Grid: rows * CLUSTER blocks of THREADS.
template <class T, int THREADS, int VECTORS, bool ALIGNED, int CLUSTER>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) __cluster_dims__(CLUSTER, 1, 1)
    softmax_cluster_rows(const T* x, T* y, int columns, int share) {
  using Tile = warpwise::RowTile<T, THREADS, ALIGNED>;
  static_assert(VECTORS * Tile::kElements <= 32, "more than 32 elements in 64 registers would spill");
  __shared__ float warp_values[warpwise::kWarp];
  const int first = static_cast<int>(blockIdx.x % CLUSTER) * share, count = max(0, min(share, columns - first));
  const long long start = static_cast<long long>(blockIdx.x / CLUSTER) * columns + first;
  warpwise::wait_for_previous_kernel();

  float values[VECTORS][Tile::kElements];
  float max = warpwise::minus_infinity();
#pragma unroll
  for (int step = 0; step < VECTORS; ++step) {
    const auto loaded = Tile::load(x + start, count, step, warpwise::from_float<T>(warpwise::minus_infinity()));
#pragma unroll
    for (int e = 0; e < Tile::kElements; ++e) {
      values[step][e] = warpwise::to_float(loaded.at[e]);
      max = fmaxf(max, values[step][e]);
    }
  }
  max = warpwise::block_reduce<warpwise::Max, THREADS>(max, warp_values);
  const float base = max == warpwise::minus_infinity() ? 0.0f : max;  // e^(-inf - -inf) is NaN

  float sum = 0.0f;
#pragma unroll
  for (int step = 0; step < VECTORS; ++step) {
#pragma unroll
    for (int e = 0; e < Tile::kElements; ++e) {
      values[step][e] = warpwise::exponential<T>(values[step][e] - base);
      sum += values[step][e];
    }
  }
  sum = warpwise::block_reduce<warpwise::Sum, THREADS>(sum, warp_values);
  const float2 all = combine_blocks<CLUSTER>(make_float2(max, sum), [](float2 a, float2 b) {
    const auto both = warpwise::MaxAndSum::combine({a.x, a.y}, {b.x, b.y});
    return make_float2(both.max, both.sum);
  });
  const float scale = expf(max - all.x) / all.y;

#pragma unroll
  for (int step = 0; step < VECTORS; ++step) {
    typename Tile::Vector result;
#pragma unroll
    for (int e = 0; e < Tile::kElements; ++e) result.at[e] = warpwise::from_float<T>(values[step][e] * scale);
    Tile::store(y + start, count, step, result);
  }
  warpwise::sm90::cluster_wait();
}
