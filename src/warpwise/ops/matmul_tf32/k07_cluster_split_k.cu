// Few tiles: mma.sync for any layout and alignment, and the blocks of a cluster divide K.
//
// See k29 of matmul.

#include <warpwise/sm80/gemm_split_k.cuh>

namespace gemm = warpwise::gemm;

// a: (batch, m, k), b: (batch, k, n), c: (batch, m, n), c contiguous; matrices of a and b are a_batch and b_batch
// elements apart, their lines a_stride and b_stride. Loop: SimtMainLoop or MmaMainLoop of these layouts and alignments.
// C_ALIGNED: n is a multiple of 4. SPLIT: blocks of a cluster. Grid: (SPLIT blocks for each tile of a matrix, batch).
template <class Loop, bool C_ALIGNED, int SPLIT>
__global__ void __launch_bounds__(Loop::kThreads) WARPWISE_CLUSTER(SPLIT)
    matmul_cluster_split_k_tf32(const typename Loop::Element* __restrict__ a, int a_stride, long long a_batch,
                                const typename Loop::Element* __restrict__ b, int b_stride, long long b_batch,
                                typename Loop::Element* __restrict__ c, int m, int n, int k, int tiles_m) {
  const long long matrix = blockIdx.y;
  const gemm::Store<typename Loop::Element, C_ALIGNED> store = {c + matrix * m * n, n};
  gemm::gemm_split_k<Loop, SPLIT>(a + matrix * a_batch, a_stride, b + matrix * b_batch, b_stride, m, n, k, tiles_m,
                                  store);
}
