// k12 of matmul for a batch: the epilogue of a tile overlaps with the main loop of the next one, which may be in the
// next matrix.
//
// Attention scores have K = 128: 2048 clocks of wgmma for a tile of 64 KB, which takes 4000 clocks to reach DRAM while
// all SMs store. Stores must therefore never pause: sums are rounded at once and stored box by box while k-tiles of
// the next tile are loaded and multiplied.

#include <warpwise/sm90/gemm_batched.cuh>

namespace sm90 = warpwise::sm90;
using sm90::TensorMap;

struct Batch : sm90::MatrixTiles {
  int count, a_step, b_step;  // matrices; a step is 0 for a broadcast operand, else 1
  __device__ int tiles() const { return count * order.tiles(); }
  __device__ sm90::TileCoord at(int number) const {
    const int matrix = number / order.tiles();
    const sm90::Tile tile = order.at(number % order.tiles());
    return {tile.row, tile.column, matrix * a_step, matrix * b_step, matrix};
  }
};

// a: (batch, m, k), or (batch, k, m) if A_MN_MAJOR; b: (batch, n, k), or (batch, k, n) if B_MN_MAJOR; c: (batch, m,
// n): tensor maps. rows, columns: a matrix in tiles of BM x BN; group: of TileScheduler. For the other parameters,
// grid and shared memory see GemmConfig and sm90::gemm_batched.
template <class T, int BM, int BN, int GM, int GN, int STAGES, bool STORE_AT_END, bool A_MN_MAJOR, bool B_MN_MAJOR>
__global__ void __launch_bounds__((1 + GM * GN) * 128, 1) batched_matmul_overlapped_epilogue(
    const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const __grid_constant__ TensorMap c,
    int a_step, int b_step, int batch, int k, int rows, int columns, int group) {
  using P = sm90::GemmConfig<T, BM, BN, GM, GN, STAGES, 1, 1, A_MN_MAJOR, B_MN_MAJOR>;
  sm90::gemm_batched<P, STORE_AT_END>(
      a, b, c, Batch{{{rows, columns, group}, (k + P::tile_k - 1) / P::tile_k}, batch, a_step, b_step});
}
