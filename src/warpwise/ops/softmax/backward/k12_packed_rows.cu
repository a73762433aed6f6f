// 16-byte accesses to rows of any length and alignment, kept in the registers of lanes, of a block, or of a cluster.
//
// k03 reads single elements if rows are not multiples of 16 bytes. k04 reads long rows twice, and k08 needs two
// launches. Here long rows are read once, by the blocks of a cluster. Clusters exist from sm_90 on.

#include <warpwise/core/previous_kernel.cuh>

#include "../packed_rows.cuh"

// Its packs of dy and y.
template <class T, int VECTORS, int EDGES = 1>
struct Rows : PackedRow<T, VECTORS, EDGES> {
  using Base = PackedRow<T, VECTORS, EDGES>;
  using Base::Base;
  static_assert(VECTORS <= 4, "1024 threads have 64 registers each: more than 32 for two rows would spill");
  typename Base::Words gradient[VECTORS], probability[VECTORS];
  float gradients[EDGES], probabilities[EDGES];

  // This thread's sum of dy * y.
  __device__ float load(const T* dy, const T* y) {
    Base::load(dy, 0.0f, gradient, gradients);
    Base::load(y, 0.0f, probability, probabilities);
    float dot = 0.0f;
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
#pragma unroll
      for (int e = 0; e < Base::kSize; ++e) dot += Base::element(gradient[v], e) * Base::element(probability[v], e);
    }
#pragma unroll
    for (int i = 0; i < EDGES; ++i) dot += gradients[i] * probabilities[i];
    return dot;
  }

  __device__ void store(T* dx, float dot) {
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
      // The elements are converted again: kept as floats, those of a word of two would take two registers.
#pragma unroll
      for (int w = 0; w < Base::Words::size; ++w)
        asm volatile("" : "+r"(gradient[v].at[w]), "+r"(probability[v].at[w]));
      typename Base::Pack pack;
#pragma unroll
      for (int e = 0; e < Base::kSize; ++e) {
        const float difference = Base::element(gradient[v], e) - dot;
        pack.at[e] = warpwise::from_float<T>(Base::element(probability[v], e) * difference);
      }
      gradient[v] = *reinterpret_cast<const typename Base::Words*>(&pack);
    }
#pragma unroll
    for (int i = 0; i < EDGES; ++i) gradients[i] = probabilities[i] * (gradients[i] - dot);
    Base::store(dx, gradient, gradients);
  }
};

// dy, y, dx: those of PackedRow. Block: (LANES, 128 / LANES). Grid: cdiv(rows, rows of a block).
template <class T, int LANES, int VECTORS>
__global__ void __launch_bounds__(128) softmax_backward_packed_rows_of_lanes(const T* dy, const T* y, T* dx, int rows,
                                                                             int columns) {
  const long long number = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y;
  constexpr int kEdges = warpwise::cdiv(2 * warpwise::Pack<T>::size - 2, LANES);
  // Threads past the last row take part in their warp's shuffles and access no memory.
  Rows<T, VECTORS, kEdges> row(y, number < rows ? number : 0, number < rows ? columns : 0, threadIdx.x, LANES);
  warpwise::wait_for_previous_kernel();
  row.store(dx, warpwise::warp_reduce<warpwise::Sum, LANES>(row.load(dy, y)));
}

// The same for a row in the blocks of a cluster. Block: up to THREADS, whole warps. Grid: rows * CLUSTER.
template <class T, int VECTORS, int CLUSTER>
__device__ inline void softmax_backward_row(const T* dy, const T* y, T* dx, int columns) {
  __shared__ float warp_values[warpwise::kWarp];
  const int lane = blockIdx.x % CLUSTER * blockDim.x + threadIdx.x;
  Rows<T, VECTORS> row(y, blockIdx.x / CLUSTER, columns, lane, CLUSTER * blockDim.x);
  warpwise::wait_for_previous_kernel();
  float dot = warpwise::block_reduce<warpwise::Sum>(row.load(dy, y), warp_values, blockDim.x / warpwise::kWarp);
  if constexpr (CLUSTER > 1) {
    dot = cluster_combine<CLUSTER>(
        dot, [](float of_block) { return warpwise::warp_reduce<warpwise::Sum, CLUSTER>(of_block); });
  }
  row.store(dx, dot);
  if constexpr (CLUSTER > 1) warpwise::sm90::cluster_wait();
}

template <class T, int THREADS, int VECTORS>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) softmax_backward_packed_rows(const T* dy, const T* y, T* dx,
                                                                                        int columns) {
  softmax_backward_row<T, VECTORS, 1>(dy, y, dx, columns);
}

template <class T, int THREADS, int VECTORS, int CLUSTER>
__global__ void __launch_bounds__(THREADS, 1024 / THREADS) __cluster_dims__(CLUSTER, 1, 1)
    softmax_backward_packed_rows_of_clusters(const T* dy, const T* y, T* dx, int columns) {
  softmax_backward_row<T, VECTORS, CLUSTER>(dy, y, dx, columns);
}
