// Hopper: warp-specialised GEMM by wgmma; TMA loads the matrix to add during the main loop.
//
// C is loaded into the registers that later hold the finished tile, so the epilogue does not wait for it.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <warpwise/sm90/gemm_epilogue.cuh>

namespace sm90 = warpwise::sm90;

// a: (m, k), or (k, m) if A_MN_MAJOR; b: (n, k), or (k, n) if B_MN_MAJOR; result, c: (m, n): tensor maps with boxes of
// 64 x 64. ADDED: c is added; otherwise `row` (n), which may be null. The other parameters are those of k05 of linear.
template <class T, int BM, int BN, int GM, int GN, int STAGES, int CM, int CN, bool A_MN_MAJOR, bool B_MN_MAJOR,
          bool ADDED>
__global__ void __launch_bounds__((1 + GM * GN) * 128, 1) __cluster_dims__(CM* CN, 1, 1)
    addmm_warpgroups(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
                     const __grid_constant__ sm90::TensorMap result, const __grid_constant__ sm90::TensorMap c,
                     const T* row, float alpha, float beta, int m, int n, int k, int rows, int columns, int group) {
  using P = sm90::GemmConfig<T, BM, BN, GM, GN, STAGES, CM, CN, A_MN_MAJOR, B_MN_MAJOR>;
  sm90::gemm_epilogue<P, warpwise::kIdentity, ADDED, false>({&a, &b, &result, &c, &result},
                                                            {row, nullptr, alpha, beta, beta}, m, n, k,
                                                            sm90::TileScheduler{rows, columns, group});
}
