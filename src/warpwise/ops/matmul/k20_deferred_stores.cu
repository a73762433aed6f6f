// A tile leaves under the next tile's products; any orientation of A and B; small tiles for small matrices.
//
// k12 stops multiplying while it writes: 2000 clocks a tile, of 8192 where K = 512. Rounding the 128 sums of a thread
// to 64 registers takes 160 clocks and frees the accumulators at once, so that the next tile begins, its slices having
// arrived meanwhile; the rounded tile then leaves a box at a time, while products run that need no thread. The matrix
// units read either operand along or across its rows, so that a transposed view is multiplied where it lies.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <warpwise/sm90/gemm.cuh>

namespace sm90 = warpwise::sm90;

// a: (m, k) or, MN_MAJOR, (k, m); b: (n, k) or, MN_MAJOR, (k, n); c: (m, n): maps with boxes of 64 x 64. rows, columns:
// C in tiles of a cluster, BM * CM x BN * CN; group: of the tiles' order. GemmConfig says what the other parameters
// are.
template <class T, int BM, int BN, int GM, int GN, int STAGES, int CM, int CN, bool A_MN_MAJOR, bool B_MN_MAJOR>
__global__ void __launch_bounds__((1 + GM * GN) * 128, 1) __cluster_dims__(CM* CN, 1, 1)
    matmul_deferred_stores(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
                           const __grid_constant__ sm90::TensorMap c, int k, int rows, int columns, int group) {
  using P = sm90::GemmConfig<T, BM, BN, GM, GN, STAGES, CM, CN, A_MN_MAJOR, B_MN_MAJOR>;
  sm90::gemm<P>(a, b, c, k, sm90::TileScheduler{rows, columns, group}, sm90::IdentityEpilogue());
}

// The same of blocks alone: launched as clusters, if only of one, they took 5 to 12 % longer below 2048.
template <class T, int BM, int BN, int GM, int GN, int STAGES, int CM, int CN, bool A_MN_MAJOR, bool B_MN_MAJOR>
__global__ void __launch_bounds__((1 + GM * GN) * 128, 1) matmul_deferred_stores_alone(
    const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
    const __grid_constant__ sm90::TensorMap c, int k, int rows, int columns, int group) {
  static_assert(CM * CN == 1, "no block loads for another");
  using P = sm90::GemmConfig<T, BM, BN, GM, GN, STAGES, CM, CN, A_MN_MAJOR, B_MN_MAJOR>;
  sm90::gemm<P>(a, b, c, k, sm90::TileScheduler{rows, columns, group}, sm90::IdentityEpilogue());
}
