// int8 wgmma with exact int32 sums; B is transposed first, since wgmma reads 1-byte operands K-major only.
//
// A k-tile is 128 elements, so boxes, tiles and clocks equal those of 2-byte types with twice the multiply-adds. Sums
// have 4 bytes: a tile of C is 128 KB and is stored by TMA in boxes of 64 x 32.

#include <warpwise/sm90/gemm_k_major.cuh>

namespace gemm_k_major = warpwise::gemm_k_major;
using warpwise::sm90::TensorMap;

// a: (m, k), b: (n, k), c: (m, n), tensor maps. Boxes, grid and dynamic shared memory: see gemm_k_major::gemm.
__global__ void __launch_bounds__(gemm_k_major::kThreads, 1) __cluster_dims__(gemm_k_major::kCluster, 1, 1)
    matmul_warpgroups_int8(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                           const __grid_constant__ TensorMap c, int k, int pairs, int columns, int group) {
  extern __shared__ unsigned char raw[];
  gemm_k_major::gemm(a, b, c, k, pairs, columns, group, warpwise::shared_address(raw));
}
