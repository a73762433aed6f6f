// Hopper by hand: products by warpgroups, and what is added comes by the copy engine under them.
//
// C waits in the registers that the finished tile will leave from: when the sums are done nothing is waited for.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <warpwise/sm90/gemm_epilogue.cuh>

namespace sm90 = warpwise::sm90;

// a: (m, k), or across (k, m); b: (n, k), or across (k, n); result, c: (m, n), as maps with boxes of 64 x 64; c is
// added where ADDED, the row (n), which may be null, elsewhere. The parameters: as for linear's k05.
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
