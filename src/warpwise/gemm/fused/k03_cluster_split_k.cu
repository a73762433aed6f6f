// Few tiles: the blocks of a cluster divide K, and the epilogue follows their reduction; any layout and alignment.
//
// k02 needs operands that TMA can address and a tile for each SM. For a small layer its launch is not faster than
// PyTorch's, and few SMs sum a large K. See k14 of matmul.

#include <warpwise/sm80/gemm_split_k.cuh>

namespace gemm = warpwise::gemm;

// a: (m, k), b: (k, n): their lines are a_stride and b_stride elements apart. result, kept, bias, row_scale, source:
// see gemm::FusedStore. Loop, C_ALIGNED, SPLIT: see k14 of matmul. Grid: SPLIT blocks for each tile.
template <class Loop, bool C_ALIGNED, int SPLIT, int ACTIVATION, class T = typename Loop::Element>
__global__ void __launch_bounds__(Loop::kThreads) WARPWISE_CLUSTER(SPLIT)
    gemm_cluster_split_k(const T* __restrict__ a, int a_stride, const T* __restrict__ b, int b_stride,
                         T* __restrict__ result, T* __restrict__ kept, const T* __restrict__ bias,
                         const T* __restrict__ row_scale, const T* __restrict__ source, long long source_row,
                         long long source_column, float alpha, float beta, int m, int n, int k, int tiles_m) {
  const gemm::FusedStore<T, ACTIVATION, C_ALIGNED> store = {result,     kept,          bias,  row_scale, source,
                                                            source_row, source_column, alpha, beta,      n};
  gemm::gemm_split_k<Loop, SPLIT>(a, a_stride, b, b_stride, m, n, k, tiles_m, store);
}
