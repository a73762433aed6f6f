// Few rows or few tiles: columns of B take the M dimension of wgmma, rows of A its N dimension, which may be 8.
//
// The kernel is that of gemm_skinny.cuh. B passes through registers if it is MN-major, or if its lines are not 16-byte
// aligned. If K is also split through global memory, each split stores its sums to a separate matrix; a second kernel
// adds them.

#include "b_in_registers.cuh"

// The body of the kernels below.
template <int GROUPS, int M, int STAGES, int SPLIT, int PRODUCERS, bool SEPARATE_BUFFER, class B>
__device__ inline void multiply(const sm90::TensorMap& a, const B& b, float* c, int m, int n, int k, int tiles_m,
                                int splits) {
  using Shape = skinny::Shape<GROUPS, 1, M, 1, STAGES, PRODUCERS>;
  const auto policy = [](int) { return sm90::createpolicy_evict_first(); };  // both operands are read once
  skinny::gemm<Shape, SPLIT, SEPARATE_BUFFER>(a, b, skinny::FloatRows<B>{c, m, n},
                                              skinny::work_of_cluster<Shape, SPLIT>(tiles_m, splits), k, GROUPS * 64,
                                              STAGES, nullptr, nullptr, policy);
}

// a: (m, k), boxes of M x 32; b: (k, n), boxes of 64 GROUPS x 32 of columns if B_K_MAJOR, else of 32 x 32 of rows; c:
// (splits, m, n), row-major, the sums of each of `splits` splits of K. Cluster: SPLIT splits of K. Grid: splits *
// cdiv(m, M) * cdiv(n, 64 GROUPS) clusters. Dynamic shared memory: as for skinny::gemm.
template <bool B_K_MAJOR, int GROUPS, int M, int STAGES, int SPLIT, int PRODUCERS, bool SEPARATE_BUFFER>
__global__ void __launch_bounds__(GROUPS * 128 + PRODUCERS, 1) __cluster_dims__(SPLIT, 1, 1)
    matmul_skinny(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b, float* c, int m,
                  int n, int k, int tiles_m, int splits) {
  const auto run = [&](const auto& of_b) {
    multiply<GROUPS, M, STAGES, SPLIT, PRODUCERS, SEPARATE_BUFFER>(a, of_b, c, m, n, k, tiles_m, splits);
  };
  if constexpr (B_K_MAJOR)
    run(skinny::SharedB<float, true>{&b});
  else
    run(RegisterB<BLayout::kRows, GROUPS * 64>{{&b}, 0, 0});
}

// The same for a b with lines (rows, or columns if B_K_MAJOR) of any alignment: maps, start and step of RegisterB.
template <bool B_K_MAJOR, int GROUPS, int M, int STAGES, int SPLIT, int PRODUCERS, bool SEPARATE_BUFFER>
__global__ void __launch_bounds__(GROUPS * 128 + PRODUCERS, 1) __cluster_dims__(SPLIT, 1, 1)
    matmul_skinny_shifted(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b0,
                          const __grid_constant__ sm90::TensorMap b1, const __grid_constant__ sm90::TensorMap b2,
                          const __grid_constant__ sm90::TensorMap b3, int start, int step, float* c, int m, int n,
                          int k, int tiles_m, int splits) {
  using B = RegisterB<B_K_MAJOR ? BLayout::kShiftedColumns : BLayout::kShiftedRows, GROUPS * 64>;
  multiply<GROUPS, M, STAGES, SPLIT, PRODUCERS, SEPARATE_BUFFER>(a, B{{&b0, &b1, &b2, &b3}, start, step}, c, m, n, k,
                                                                 tiles_m, splits);
}
