// The epilogue overlaps with the next tile's main loop; any layout of A and B; small tiles for small matrices.
//
// Without multiplications during its epilogue a kernel loses 2000 clocks per tile, of 8192 for K = 512. Rounding the
// 128 sums of a thread to 64 registers takes 160 clocks and frees the accumulators, so that the next tile starts at
// once with k-tiles already loaded; the rounded tile is stored box by box while wgmma, which needs no thread, runs.
// wgmma reads 2-byte operands K-major or MN-major, so transposed views need no copy.

#include <warpwise/sm90/gemm_variable.cuh>

namespace sm90 = warpwise::sm90;

// A tile of BN columns, which may be less than the 64 columns of the last box of B: the next tile loads the rest again.
template <class T, int BM, int BN, int GM, int GN, int STAGES, int CM, int CN, bool A_MN_MAJOR, bool B_MN_MAJOR>
using Config =
    sm90::GemmConfig<T, BM, (BN + 63) / 64 * 64, GM, GN, STAGES, CM, CN, A_MN_MAJOR, B_MN_MAJOR, 64, 64, BN / GN>;

// a: (m, k), or (k, m) if A_MN_MAJOR; b: (n, k), or (k, n) if B_MN_MAJOR; c: (m, n): tensor maps with boxes of 64 x
// 64. If not C_BY_TMA, C is stored to `c_rows`, of any alignment, by threads. rows, columns: C in tiles of a cluster,
// BM * CM x BN * CN; group: of TileScheduler. For the template parameters, shared memory and grid see GemmConfig and
// sm90::gemm.
template <class T, int BM, int BN, int GM, int GN, int STAGES, int CM, int CN, bool A_MN_MAJOR, bool B_MN_MAJOR,
          bool C_BY_TMA>
__global__ void __launch_bounds__((1 + GM * GN) * 128, 1) __cluster_dims__(CM* CN, 1, 1)
    matmul_overlapped_epilogue(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
                               const __grid_constant__ sm90::TensorMap c, T* c_rows, int m, int n, int k, int rows,
                               int columns, int group) {
  using P = Config<T, BM, BN, GM, GN, STAGES, CM, CN, A_MN_MAJOR, B_MN_MAJOR>;
  sm90::gemm_matrices<P, C_BY_TMA>(a, b, c, {c_rows, m, n}, k, {rows, columns, group});
}

// The same without clusters: as clusters of one block, sizes below 2048 take 5 to 12 % longer.
template <class T, int BM, int BN, int GM, int GN, int STAGES, int CM, int CN, bool A_MN_MAJOR, bool B_MN_MAJOR,
          bool C_BY_TMA>
__global__ void __launch_bounds__((1 + GM * GN) * 128, 1) matmul_overlapped_epilogue_no_cluster(
    const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
    const __grid_constant__ sm90::TensorMap c, T* c_rows, int m, int n, int k, int rows, int columns, int group) {
  static_assert(CM * CN == 1, "no multicast without a cluster");
  using P = Config<T, BM, BN, GM, GN, STAGES, CM, CN, A_MN_MAJOR, B_MN_MAJOR>;
  sm90::gemm_matrices<P, C_BY_TMA>(a, b, c, {c_rows, m, n}, k, {rows, columns, group});
}

// The same by tiles with BN and BN - 8 columns, of which `wide` tile columns are wide.
template <class T, int BM, int BN, int GM, int GN, int STAGES, int CM, int CN, bool A_MN_MAJOR, bool B_MN_MAJOR>
__global__ void __launch_bounds__((1 + GM * GN) * 128, 1) __cluster_dims__(CM* CN, 1, 1)
    matmul_overlapped_epilogue_variable_n(const __grid_constant__ sm90::TensorMap a,
                                          const __grid_constant__ sm90::TensorMap b,
                                          const __grid_constant__ sm90::TensorMap c, int k, int rows, int columns,
                                          int group, int wide) {
  using P = Config<T, BM, BN, GM, GN, STAGES, CM, CN, A_MN_MAJOR, B_MN_MAJOR>;
  using Narrow = Config<T, BM, BN - 8, GM, GN, STAGES, CM, CN, A_MN_MAJOR, B_MN_MAJOR>;
  extern __shared__ unsigned char raw[];
  const sm90::GemmStorage<P> storage(raw);
  sm90::gemm<P>(storage, sm90::Matrix{&a}, sm90::Matrix{&b},
                sm90::VariableNTiles<P, Narrow>{{rows, columns, group}, wide, (k + P::tile_k - 1) / P::tile_k},
                sm90::OverlappedStore<P, sm90::VariableBoxStore>(storage, {{&c}}));
}
