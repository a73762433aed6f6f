// 16-byte accesses to rows of any length and alignment, kept in the registers of lanes, of a block, or of a cluster.
//
// k05 reads single elements if rows are not multiples of 16 bytes. k06 reads a long row twice, and k12 needs two
// launches. Here a long row is read once, by the blocks of a cluster. Each block computes the exponentials relative to
// its own maximum; the cluster's maximum and sum give one factor for all elements of a block. Clusters exist from sm_90
// on.

#include <warpwise/core/previous_kernel.cuh>

#include "../packed_rows.cuh"

using Statistics = warpwise::MaxAndSum::Value;

template <class T, int VECTORS, int EDGES = 1>
struct Row : PackedRow<T, VECTORS, EDGES> {
  using Base = PackedRow<T, VECTORS, EDGES>;
  using Base::Base;
  static_assert(VECTORS * Base::kSize <= 32, "1024 threads have 64 registers each: more than 32 of a row would spill");
  float values[VECTORS][Base::kSize], singles[EDGES];

  // This thread's maximum.
  __device__ float load(const T* x) {
    typename Base::Words words[VECTORS];
    Base::load(x, warpwise::minus_infinity(), words, singles);
    float max = warpwise::minus_infinity();
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
#pragma unroll
      for (int e = 0; e < Base::kSize; ++e) {
        values[v][e] = Base::element(words[v], e);
        max = fmaxf(max, values[v][e]);
      }
    }
#pragma unroll
    for (int i = 0; i < EDGES; ++i) max = fmaxf(max, singles[i]);
    return max;
  }

  // The elements become e^(x - base); returns this thread's sum of them.
  __device__ float exponentials(float base) {
    float sum = 0.0f;
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
#pragma unroll
      for (int e = 0; e < Base::kSize; ++e) sum += values[v][e] = warpwise::exponential<T>(values[v][e] - base);
    }
#pragma unroll
    for (int i = 0; i < EDGES; ++i) sum += singles[i] = warpwise::exponential<T>(singles[i] - base);
    return sum;
  }

  __device__ void store(T* y, float scale) {
    typename Base::Words words[VECTORS];
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
      typename Base::Pack pack;
#pragma unroll
      for (int e = 0; e < Base::kSize; ++e) pack.at[e] = warpwise::from_float<T>(values[v][e] * scale);
      words[v] = *reinterpret_cast<const typename Base::Words*>(&pack);
    }
#pragma unroll
    for (int i = 0; i < EDGES; ++i) singles[i] *= scale;
    Base::store(y, words, singles);
  }
};

// x, y: those of PackedRow. Block: (LANES, 128 / LANES). Grid: cdiv(rows, rows of a block).
template <class T, int LANES, int VECTORS>
__global__ void __launch_bounds__(128) softmax_packed_rows_of_lanes(const T* x, T* y, int rows, int columns) {
  const long long number = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y;
  constexpr int kEdges = warpwise::cdiv(2 * warpwise::Pack<T>::size - 2, LANES);
  // Threads past the last row take part in their warp's shuffles and access no memory.
  Row<T, VECTORS, kEdges> row(x, number < rows ? number : 0, number < rows ? columns : 0, threadIdx.x, LANES);
  warpwise::wait_for_previous_kernel();
  const float max = warpwise::warp_reduce<warpwise::Max, LANES>(row.load(x));
  const float sum = warpwise::warp_reduce<warpwise::Sum, LANES>(row.exponentials(max));
  row.store(y, 1.0f / sum);
}

// The same for a row in the blocks of a cluster. Block: up to THREADS, whole warps. Grid: rows * CLUSTER.
template <class T, int VECTORS, int CLUSTER>
__device__ inline void softmax_row(const T* x, T* y, int columns) {
  __shared__ float warp_values[warpwise::kWarp];
  const int warps = blockDim.x / warpwise::kWarp, lane = blockIdx.x % CLUSTER * blockDim.x + threadIdx.x;
  Row<T, VECTORS> row(x, blockIdx.x / CLUSTER, columns, lane, CLUSTER * blockDim.x);
  warpwise::wait_for_previous_kernel();
  const float max = warpwise::block_reduce<warpwise::Max>(row.load(x), warp_values, warps);
  // A block of only -inf gives 0 beside a finite element, and a row of only -inf NaN.
  const float base = CLUSTER > 1 && max == warpwise::minus_infinity() ? 0.0f : max;
  const float sum = warpwise::block_reduce<warpwise::Sum>(row.exponentials(base), warp_values, warps);
  float scale = 1.0f / sum;
  if constexpr (CLUSTER > 1) {
    const Statistics all = cluster_combine<CLUSTER>(Statistics{max, sum}, [](Statistics of_block) {
      const float most = warpwise::warp_reduce<warpwise::Max, CLUSTER>(of_block.max);
      const float rescaled = warpwise::MaxAndSum::rescaled(of_block, most);
      return Statistics{most, warpwise::warp_reduce<warpwise::Sum, CLUSTER>(rescaled)};
    });
    scale = warpwise::exponential<T>(max - all.max) / all.sum;
  }
  row.store(y, scale);
  if constexpr (CLUSTER > 1) warpwise::sm90::cluster_wait();
}

template <class T, int THREADS, int VECTORS>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) softmax_packed_rows(const T* x, T* y, int columns) {
  softmax_row<T, VECTORS, 1>(x, y, columns);
}

template <class T, int THREADS, int VECTORS, int CLUSTER>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) __cluster_dims__(CLUSTER, 1, 1)
    softmax_packed_rows_of_clusters(const T* x, T* y, int columns) {
  softmax_row<T, VECTORS, CLUSTER>(x, y, columns);
}
