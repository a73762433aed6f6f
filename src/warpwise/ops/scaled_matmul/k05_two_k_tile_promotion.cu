// fp8 wgmma with float32 sums: one consumer warpgroup multiplies while the other one adds.
//
// wgmma accumulates fp8 products with 13 bits after the binary point, so a long sum must not stay in its accumulators:
// they are added to sums in other registers. The 128 x 256 sums take half of the register file, which leaves a quarter
// for accumulators. A warpgroup therefore multiplies one half of its 64 x 256 tile, waits, and adds, 64 additions per
// thread, which overlap with the wgmma of the other warpgroup.
//
// Between the last wgmma of a warpgroup and its next one are the wait, the additions and the barrier of the next
// k-tile. They take about 300 clocks, while the half tile of the other warpgroup takes only 256 with one k-tile, and
// 512 with two. Two k-tiles, 256 products, are therefore accumulated in wgmma; the truncation error of a partial sum
// grows by 2^0.7.

#include "fp8_gemm.cuh"

// Arguments and launch: those of scaled_gemm; pairs, columns, group: of TileScheduler.
template <class A, class B, bool ROWWISE, bool BY_TMA, int COLUMNS, int STAGES>
__global__ void __launch_bounds__(384, 1) __cluster_dims__(2, 1, 1)
    scaled_matmul_two_k_tile_promotion(const __grid_constant__ sm90::TensorMap a,
                                       const __grid_constant__ sm90::TensorMap b,
                                       const __grid_constant__ sm90::TensorMap c, __nv_bfloat16* rows,
                                       const float* __restrict__ scale_a, const float* __restrict__ scale_b, int m,
                                       int n, int k, int pairs, int columns, int group, int hints) {
  scaled_gemm<Fp8Config<A, B, COLUMNS, STAGES>, ROWWISE, BY_TMA>(a, b, c, {rows, m, n}, scale_a, scale_b, k,
                                                                 {pairs, columns, group}, hints);
}
