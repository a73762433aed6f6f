// TF32 by Hopper's warpgroups: B is turned first, since the matrix units read 4-byte elements along K alone.
//
// They take the upper 19 bits of each float as it lies in shared memory: what TF32 has no room for is cut off, and no
// instruction is spent on rounding. A slice is 32 deep, with boxes, tiles and clocks as for int8 (matmul's k22).

#include <warpwise/sm90/gemm_k_major.cuh>

namespace gemm_k_major = warpwise::gemm_k_major;
using warpwise::sm90::TensorMap;

// a: (m, k), b: (n, k), c: (m, n), as maps; boxes, grid and dynamic shared memory as gemm_k_major::gemm has them.
__global__ void __launch_bounds__(gemm_k_major::kThreads, 1) __cluster_dims__(gemm_k_major::kCluster, 1, 1)
    matmul_warpgroups_tf32(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                           const __grid_constant__ TensorMap c, int k, int pairs, int columns, int group) {
  extern __shared__ unsigned char raw[];
  gemm_k_major::gemm<float>(a, b, c, k, pairs, columns, group, warpwise::shared_address(raw));
}
