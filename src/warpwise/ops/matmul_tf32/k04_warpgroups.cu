// TF32 wgmma: B is transposed first, since wgmma reads 4-byte operands from shared memory K-major only.
//
// wgmma uses the upper 19 bits of each float in shared memory: the remaining bits are truncated, without instructions
// for rounding. A k-tile is 32 elements; boxes, tiles and clocks equal those for int8 (k22 of matmul).

#include <warpwise/sm90/gemm_k_major.cuh>

namespace gemm_k_major = warpwise::gemm_k_major;
using warpwise::sm90::TensorMap;

// a: (m, k), b: (n, k), c: (m, n), tensor maps. Boxes, grid and dynamic shared memory: see gemm_k_major::gemm.
__global__ void __launch_bounds__(gemm_k_major::kThreads, 1) __cluster_dims__(gemm_k_major::kCluster, 1, 1)
    matmul_warpgroups_tf32(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                           const __grid_constant__ TensorMap c, int k, int pairs, int columns, int group) {
  extern __shared__ unsigned char raw[];
  gemm_k_major::gemm<float>(a, b, c, k, pairs, columns, group, warpwise::shared_address(raw));
}
