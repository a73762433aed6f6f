// Operands whose rows are not 16-byte aligned: one pass (gemm/pad.cu) copies them to padded rows; threads store C,
// without TMA.
//
// TMA requires 16-byte aligned rows, and cp.async of 2-byte elements would take eight times the instructions. The pass
// moves the operands twice, partly within L2: 4 x 33 MB at M = N = K = 4095 take 35 us at DRAM bandwidth, in addition
// to 180 us of multiplication.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <warpwise/sm90/gemm_int8.cuh>

namespace sm90 = warpwise::sm90;

// k20 with C: (m, n) in dense rows of any alignment.
template <class T, int BM, int BN, int GM, int GN, int STAGES, int CM, int CN, bool A_MN_MAJOR, bool B_MN_MAJOR>
__global__ void __launch_bounds__((1 + GM * GN) * 128, 1) __cluster_dims__(CM* CN, 1, 1)
    matmul_unaligned_c(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b, T* c,
                       int m, int n, int k, int rows, int columns, int group) {
  using P = sm90::GemmConfig<T, BM, BN, GM, GN, STAGES, CM, CN, A_MN_MAJOR, B_MN_MAJOR>;
  sm90::gemm_matrices<P>(a, b, sm90::RowStore<T>({c, m, n}), k, {rows, columns, group});
}

template <class T, int BM, int BN, int GM, int GN, int STAGES, int CM, int CN, bool A_MN_MAJOR, bool B_MN_MAJOR>
__global__ void __launch_bounds__((1 + GM * GN) * 128, 1) matmul_unaligned_c_no_cluster(
    const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b, T* c, int m, int n, int k,
    int rows, int columns, int group) {
  static_assert(CM * CN == 1, "no multicast without a cluster");
  using P = sm90::GemmConfig<T, BM, BN, GM, GN, STAGES, CM, CN, A_MN_MAJOR, B_MN_MAJOR>;
  sm90::gemm_matrices<P>(a, b, sm90::RowStore<T>({c, m, n}), k, {rows, columns, group});
}

// k22 with C: (m, n) in dense rows of any alignment.
__global__ void __launch_bounds__(sm90::Int8Config::threads, 1) __cluster_dims__(sm90::Int8Config::cluster, 1, 1)
    matmul_int8_unaligned_c(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
                            int* c, int m, int n, int k, int pairs, int columns, int group) {
  sm90::gemm_int8(a, b, sm90::RowStore<int>({c, m, n}), k, pairs, columns, group);
}
