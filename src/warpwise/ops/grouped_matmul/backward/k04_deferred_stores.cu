// Hopper: the gradient by warpgroups, a tile leaving under the next one's products, whatever group that is in.
//
// Triton makes one loop of tiles and slices only where all sums are equally long. Here they need not be: who feeds runs
// ahead into the next group, and reads rows before a group as zeros, as k03 does.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "../../batched_matmul/deferred.cuh"

namespace sm90 = warpwise::sm90;
namespace many = warpwise::many;
using sm90::TensorMap;

// Groups' ends rise from 0 up to rows; others are held within them.
struct Groups {
  sm90::TileScheduler order;
  const int* ends;
  int count, rows;
  __device__ int tiles() const { return count * order.tiles(); }
  __device__ int start(int group) const { return group == 0 ? 0 : max(__ldg(ends + group - 1), 0); }
  __device__ int height(int group) const { return max(min(__ldg(ends + group), rows) - start(group), 0); }
  __device__ int slices(int number) const { return (height(number / order.tiles()) + sm90::kTileK - 1) / sm90::kTileK; }
  __device__ int first_depth(int number) const {  // odd rows make the first slice: before the group is nothing
    return height(number / order.tiles()) - slices(number) * sm90::kTileK;
  }
  __device__ many::Tile at(int number) const {
    const int group = number / order.tiles(), tile = number % order.tiles(), first = start(group);
    return {order.row(tile), order.column(tile), first, first, group};
  }
};

// a: (rows, rows, k) and grad: (rows, rows, n), whose element (x, y, j) is row x + y; result: (groups, k, n). tiles_m,
// tiles_n: a matrix of the result in tiles of BM x BN; group: of their order. GemmConfig says what the other parameters
// are.
template <class T, int BM, int BN, int GM, int GN, int STAGES>
__global__ void __launch_bounds__((1 + GM * GN) * 128, 1) grouped_matmul_backward_deferred_stores(
    const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap grad,
    const __grid_constant__ TensorMap result, const int* __restrict__ ends, int groups, int rows, int tiles_m,
    int tiles_n, int group) {
  using P = sm90::GemmConfig<T, BM, BN, GM, GN, STAGES, 1, 1, true, true>;
  many::multiply<P, false>(a, grad, result, Groups{{tiles_m, tiles_n, group}, ends, groups, rows});
}
