// k13 of matmul with half the block: two blocks per SM, each with four producer and four consumer warps.
//
// The epilogue of one block overlaps with the main loop of the other. In batches K may be 64 or 128; k13, with one
// block per SM, would spend a quarter of its time in the epilogue.

#include <warpwise/sm90/gemm_batched_simt.cuh>

namespace sm90 = warpwise::sm90;
using warpwise::OperandLoad, sm90::BatchOperand, sm90::TensorMap, sm90::kThreads;

template <int BM, int BN, int TILE_K, int STAGES, OperandLoad LOAD_A, OperandLoad LOAD_B>
__device__ __forceinline__ void multiply(const TensorMap* a_map, const TensorMap* b_map, const BatchOperand& a,
                                         const BatchOperand& b, float* __restrict__ c, int batch, int rows, int columns,
                                         int group) {
  const sm90::BatchTiles<BM, BN> tiles = {batch, rows,           columns,
                                          group, a.first.extent, (a.first.k + TILE_K - 1) / TILE_K};
  sm90::multiply_matrices<BM, BN, TILE_K, STAGES, LOAD_A, LOAD_B>(a_map, b_map, a, b, c, tiles);
}

// a: (batch, m, k), b: (batch, k, n), c: (batch, m, n), c row-major; a_matrix, b_matrix: see BatchOperand. The kernels
// differ in the operands that TMA loads. Grid: at most two blocks per SM. Dynamic shared memory: 128 bytes for
// alignment, STAGES k-tiles, kStaging floats and 16 * STAGES bytes.
template <int BM, int BN, int TILE_K, int STAGES>
__global__ void __launch_bounds__(kThreads, 2) batched_matmul_tma(
    const __grid_constant__ TensorMap a, long long a_matrix, const __grid_constant__ TensorMap b, long long b_matrix,
    float* __restrict__ c, int batch, int m, int n, int k, int rows, int columns, int group) {
  multiply<BM, BN, TILE_K, STAGES, warpwise::kTma, warpwise::kTma>(
      &a, &b, {{nullptr, 0, m, k}, a_matrix}, {{nullptr, 0, n, k}, b_matrix}, c, batch, rows, columns, group);
}

template <int BM, int BN, int TILE_K, int STAGES, OperandLoad LOAD_A>
__global__ void __launch_bounds__(kThreads, 2) batched_matmul_tma_b(
    const float* __restrict__ a, long long a_stride, long long a_matrix, const __grid_constant__ TensorMap b,
    long long b_matrix, float* __restrict__ c, int batch, int m, int n, int k, int rows, int columns, int group) {
  multiply<BM, BN, TILE_K, STAGES, LOAD_A, warpwise::kTma>(
      nullptr, &b, {{a, a_stride, m, k}, a_matrix}, {{nullptr, 0, n, k}, b_matrix}, c, batch, rows, columns, group);
}

template <int BM, int BN, int TILE_K, int STAGES, OperandLoad LOAD_A, OperandLoad LOAD_B>
__global__ void __launch_bounds__(kThreads, 2) batched_matmul_cp_async(const float* __restrict__ a, long long a_stride,
                                                                       long long a_matrix, const float* __restrict__ b,
                                                                       long long b_stride, long long b_matrix,
                                                                       float* __restrict__ c, int batch, int m, int n,
                                                                       int k, int rows, int columns, int group) {
  multiply<BM, BN, TILE_K, STAGES, LOAD_A, LOAD_B>(nullptr, nullptr, {{a, a_stride, m, k}, a_matrix},
                                                   {{b, b_stride, n, k}, b_matrix}, c, batch, rows, columns, group);
}
