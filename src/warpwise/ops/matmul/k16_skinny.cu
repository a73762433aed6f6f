// Few rows, on Hopper: columns of B take the M dimension of wgmma, rows of A its N dimension, which may be 8.
//
// With few rows the time is that of reading B once. A wgmma computes 64 columns x M rows with M down to 8, so little
// arithmetic is wasted. Where there are too few tiles to fill the GPU, K is split in a cluster, whose blocks add their
// sums through distributed shared memory, and again through global memory. The kernel is that of gemm_skinny.cuh.

#include <warpwise/sm90/gemm_skinny.cuh>

namespace skinny = warpwise::skinny;
namespace sm90 = warpwise::sm90;
using skinny::Shared;

// The body of the kernels below.
template <class T, int GROUPS, int M, bool A_K_MAJOR, bool B_K_MAJOR, int BOXES, int STAGES, int SPLIT,
          bool SEPARATE_BUFFER, Shared SHARED>
__device__ inline void multiply(const sm90::TensorMap& a, const sm90::TensorMap& b, T* c, float* partials,
                                int* semaphores, bool aligned, int m, int n, int k, int tiles_m, int splits) {
  using Shape = skinny::Shape<GROUPS, 1, M, BOXES, STAGES, 32, SHARED, A_K_MAJOR>;
  skinny::gemm<Shape, SPLIT, SEPARATE_BUFFER>(a, skinny::SharedB<T, B_K_MAJOR>{&b}, skinny::Rows<T>{c, aligned, m, n},
                                              skinny::work_of_cluster<Shape, SPLIT>(tiles_m, splits), k, GROUPS * 64,
                                              STAGES, partials, semaphores,
                                              sm90::createpolicy_evict_first);  // both are read once
}

// a: (m, k), b: (k, n), tensor maps, of the transposes if K_MAJOR is false for a, true for b, with the boxes of
// skinny::gemm; c: (m, n), row-major, `aligned` if its rows begin on 16 bytes. A k-tile is 64 BOXES of K. Cluster:
// SPLIT splits of K, times two blocks of a pair if an operand is SHARED. Grid: splits * cdiv(m, M) * cdiv(n, 64 GROUPS)
// clusters. Dynamic shared memory: as for skinny::gemm.
template <class T, int GROUPS, int M, bool A_K_MAJOR, bool B_K_MAJOR, int BOXES, int STAGES, int SPLIT,
          bool SEPARATE_BUFFER, Shared SHARED>
__global__ void __launch_bounds__(GROUPS * 128 + 32) __cluster_dims__(SPLIT* skinny::blocks_of(SHARED), 1, 1)
    matmul_skinny(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b, T* c,
                  float* partials, int* semaphores, bool aligned, int m, int n, int k, int tiles_m, int splits) {
  multiply<T, GROUPS, M, A_K_MAJOR, B_K_MAJOR, BOXES, STAGES, SPLIT, SEPARATE_BUFFER, SHARED>(
      a, b, c, partials, semaphores, aligned, m, n, k, tiles_m, splits);
}

// The same without clusters: a launch with clusters of one block starts later.
template <class T, int GROUPS, int M, bool A_K_MAJOR, bool B_K_MAJOR, int BOXES, int STAGES>
__global__ void __launch_bounds__(GROUPS * 128 + 32) matmul_skinny_no_cluster(const __grid_constant__ sm90::TensorMap a,
                                                                              const __grid_constant__ sm90::TensorMap b,
                                                                              T* c, float* partials, int* semaphores,
                                                                              bool aligned, int m, int n, int k,
                                                                              int tiles_m, int splits) {
  multiply<T, GROUPS, M, A_K_MAJOR, B_K_MAJOR, BOXES, STAGES, 1, false, Shared::nothing>(
      a, b, c, partials, semaphores, aligned, m, n, k, tiles_m, splits);
}
