// int8 wgmma with exact int32 sums; B is transposed first, since wgmma reads 1-byte operands K-major only.
//
// A k-tile is 128 elements, so boxes, tiles and clocks equal those of 2-byte types with twice the multiply-adds. Sums
// have 4 bytes: a tile of C is 128 KB and is stored by TMA in boxes of 64 x 32.

#include <warpwise/sm90/gemm_int8.cuh>

namespace sm90 = warpwise::sm90;

// a: (m, k), b: (n, k), c: (m, n), tensor maps. Boxes, grid and dynamic shared memory: see sm90::gemm_int8.
__global__ void __launch_bounds__(sm90::Int8Config::threads, 1) __cluster_dims__(sm90::Int8Config::cluster, 1, 1)
    matmul_warpgroups_int8(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
                           const __grid_constant__ sm90::TensorMap c, int k, int pairs, int columns, int group) {
  sm90::gemm_int8(a, b, sm90::BoxStore{&c}, k, pairs, columns, group);
}
