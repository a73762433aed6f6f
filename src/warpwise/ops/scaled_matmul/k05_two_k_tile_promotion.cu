// Two k-tiles, 256 products, per accumulation in wgmma: half the additions, and more time to hide the wait.
//
// Between the last wgmma of a warpgroup and its next one are the wait, 64 additions per thread and the barrier of the
// next k-tile. They take about 300 clocks, while the half tile of the other warpgroup takes only 256 (k04's main loop
// takes 15 to 23 % more clocks than its wgmma). With two k-tiles it takes 512. The truncation error of a partial sum
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
  scaled_gemm<Fp8Config<A, B, COLUMNS, STAGES>, TwoKTiles, ROWWISE, BY_TMA>(a, b, c, {rows, m, n}, scale_a, scale_b, k,
                                                                            {pairs, columns, group}, hints);
}
