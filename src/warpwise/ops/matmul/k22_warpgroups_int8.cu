// int8 by Hopper's warpgroups, exact in int32: k12 with B turned first, since bytes are read along K alone.
//
// A slice is 128 deep, so that boxes, tiles and clocks are those of 2-byte types with twice the products. Sums are 4
// bytes: a tile of C is 128 KB, and leaves through the copy engine in boxes of 64 x 32.

#include <warpwise/sm90/gemm_k_major.cuh>

namespace gemm_k_major = warpwise::gemm_k_major;
using warpwise::sm90::TensorMap;

// a: (m, k), b: (n, k), c: (m, n), as maps; boxes, grid and dynamic shared memory as gemm_k_major::gemm has them.
__global__ void __launch_bounds__(gemm_k_major::kThreads, 1) __cluster_dims__(gemm_k_major::kCluster, 1, 1)
    matmul_warpgroups_int8(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                           const __grid_constant__ TensorMap c, int k, int pairs, int columns, int group) {
  extern __shared__ unsigned char raw[];
  gemm_k_major::gemm<signed char>(a, b, c, k, pairs, columns, group, warpwise::shared_address(raw));
}
