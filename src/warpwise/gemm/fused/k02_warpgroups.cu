// Hopper: warp-specialised GEMM by wgmma with a fused epilogue of few instructions; stores overlap with the main loop.
//
// One exponential and one reciprocal per element, at 16 per clock and SM, take 4096 clocks; the wgmma of a tile take
// 65536 at K = 4096. Their overlap with wgmma has no effect on an H200, because power limits its clock, but fewer
// instructions do: gelu_tanh uses one reciprocal for two values. The source is loaded during the main loop into the
// registers that later hold the finished tile, which is stored during the main loop of the next one.

#include <warpwise/sm90/gemm_epilogue.cuh>

namespace sm90 = warpwise::sm90;

// a: (m, k), or (k, m) if A_MN_MAJOR; b: (n, k), or (k, n) if B_MN_MAJOR; result, source, kept: (m, n): tensor maps
// with boxes of 64 x 64. result = activate(scale * a b^T + bias) + source; if SCALED alpha * a b^T + beta * (bias +
// source). rows, columns, group: of TileScheduler. For the other parameters, grid, block and shared memory see
// GemmConfig and FusedEpilogue.
template <class T, int BM, int BN, int GM, int GN, int STAGES, int CM, int CN, bool A_MN_MAJOR, bool B_MN_MAJOR,
          int ACTIVATION, bool SOURCE, bool KEEP, bool SCALED>
__global__ void __launch_bounds__((1 + GM * GN) * 128, 1) __cluster_dims__(CM* CN, 1, 1)
    gemm_warpgroups(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
                    const __grid_constant__ sm90::TensorMap result, const __grid_constant__ sm90::TensorMap source,
                    const __grid_constant__ sm90::TensorMap kept, const T* bias, const T* scale, float alpha,
                    float beta, int m, int n, int k, int rows, int columns, int group) {
  using P = sm90::GemmConfig<T, BM, BN, GM, GN, STAGES, CM, CN, A_MN_MAJOR, B_MN_MAJOR>;
  extern __shared__ unsigned char raw[];
  const sm90::GemmStorage<P> storage(raw);
  const sm90::EpilogueParams params = {bias, SCALED ? nullptr : scale, SCALED ? alpha : 1.0f, SCALED ? beta : 1.0f,
                                       SCALED ? beta : 1.0f};
  sm90::gemm<P>(storage, sm90::Matrix{&a}, sm90::Matrix{&b},
                sm90::PersistentTiles<P>{{{rows, columns, group}, (k + P::tile_k - 1) / P::tile_k}},
                sm90::FusedEpilogue<P, ACTIVATION, SOURCE, KEEP>(storage, {&result, &source, &kept}, params, m, n));
}
