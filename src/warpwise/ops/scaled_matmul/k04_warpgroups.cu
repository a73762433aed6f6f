// fp8 wgmma with float32 sums: one consumer warpgroup multiplies while the other one adds.
//
// wgmma accumulates fp8 products with 13 bits after the binary point, so a long sum must not stay in its accumulators:
// after every k-tile of 128 they are added to sums in other registers. The 128 x 256 sums take half of the register
// file, which leaves a quarter for accumulators. A warpgroup therefore multiplies one half of its 64 x 256 tile,
// waits, and adds, 64 additions per thread, which take a quarter of the time of the other warpgroup's wgmma.
//
// As for 2-byte types, a producer warpgroup loads k-tiles by TMA, the two blocks of a cluster compute vertically
// adjacent tiles and share B by multicast, and blocks are persistent.

#include "fp8_gemm.cuh"

// Arguments and launch: those of scaled_gemm; pairs, columns, group: of TileScheduler.
template <class A, class B, bool ROWWISE, bool BY_TMA>
__global__ void __launch_bounds__(384, 1) __cluster_dims__(2, 1, 1)
    scaled_matmul_warpgroups(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
                             const __grid_constant__ sm90::TensorMap c, __nv_bfloat16* rows,
                             const float* __restrict__ scale_a, const float* __restrict__ scale_b, int m, int n, int k,
                             int pairs, int columns, int group, int hints) {
  scaled_gemm<Fp8Config<A, B, 256, 4>, EachKTile, ROWWISE, BY_TMA>(a, b, c, {rows, m, n}, scale_a, scale_b, k,
                                                                   {pairs, columns, group}, hints);
}
