// Hopper: the gradient by wgmma; the epilogue of a tile overlaps with the main loop of the next one, of any group.
//
// TMA clips boxes at the bounds of the tensor map, which does not contain the bounds of groups. Therefore both operands
// are described as (rows, rows, columns) with two equal strides: element (x, y, j) is element j of row x + y. If x is
// the group's first row, y counts rows of the group, and y < 0 is out of bounds. The last k-tile ends at the end of the
// group; the first may begin before the group and reads zeros there from both operands, so no mask is needed.
//
// Triton fuses the loops over tiles and k-tiles only if all tiles have the same number of k-tiles. Here the numbers may
// differ: the producer runs ahead into the next group.

#include <warpwise/sm90/gemm_batched.cuh>

namespace sm90 = warpwise::sm90;
using sm90::TensorMap;

// `ends` of the groups are non-decreasing from 0 to `rows`; others are clamped.
struct Groups {
  sm90::TileScheduler order;
  const int* ends;
  int count, rows;
  static constexpr int kTileK = 64;
  static constexpr bool may_be_empty = true;
  __device__ int tiles() const { return count * order.tiles(); }
  __device__ int start(int group) const { return group == 0 ? 0 : max(__ldg(ends + group - 1), 0); }
  __device__ int height(int group) const { return max(min(__ldg(ends + group), rows) - start(group), 0); }
  __device__ int k_tiles(int number) const { return (height(number / order.tiles()) + kTileK - 1) / kTileK; }
  __device__ int first_k(int number) const {  // the first k-tile may begin before the group, where rows are zero
    return height(number / order.tiles()) - k_tiles(number) * kTileK;
  }
  __device__ sm90::TileCoord at(int number) const {
    const int group = number / order.tiles(), first = start(group);
    const sm90::Tile tile = order.at(number % order.tiles());
    return {tile.row, tile.column, first, first, group};
  }
};

// a: (rows, rows, k) and grad: (rows, rows, n), whose element (x, y, j) is element j of row x + y; result: (groups, k,
// n). tiles_m, tiles_n: a matrix of the result in tiles of BM x BN; group: of TileScheduler. For the other parameters,
// grid and shared memory see GemmConfig and sm90::gemm_batched.
template <class T, int BM, int BN, int GM, int GN, int STAGES>
__global__ void __launch_bounds__((1 + GM * GN) * 128, 1) grouped_matmul_backward_overlapped_epilogue(
    const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap grad,
    const __grid_constant__ TensorMap result, const int* __restrict__ ends, int groups, int rows, int tiles_m,
    int tiles_n, int group) {
  using P = sm90::GemmConfig<T, BM, BN, GM, GN, STAGES, 1, 1, true, true>;
  sm90::gemm_batched<P, false>(a, grad, result, Groups{{tiles_m, tiles_n, group}, ends, groups, rows});
}
