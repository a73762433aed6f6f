// Hopper, two bytes: matmul's k20 for a batch. A tile leaves under the next tile's products, of the next matrix too.
//
// Attention's scores are 128 deep: 2048 clocks of products for a tile of 64 KB, whose way to DRAM takes 4000 while all
// SMs write. So writing must never pause: sums are rounded at once, and leave box by box while slices of the next tile
// arrive and are multiplied.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "deferred.cuh"

namespace sm90 = warpwise::sm90;
namespace many = warpwise::many;
using sm90::TensorMap;

struct Batch {
  sm90::TileScheduler order;
  int count, a_step, b_step, depth_slices;  // matrices; 1, or 0 where there is one factor for all
  __device__ int tiles() const { return count * order.tiles(); }
  __device__ int slices(int number) const { return depth_slices; }
  __device__ int first_depth(int number) const { return 0; }
  __device__ many::Tile at(int number) const {
    const int matrix = number / order.tiles(), tile = number % order.tiles();
    return {order.row(tile), order.column(tile), matrix * a_step, matrix * b_step, matrix};
  }
};

// a: (batch, m, k) or, MN_MAJOR, (batch, k, m); b: (batch, n, k) or, MN_MAJOR, (batch, k, n); c: (batch, m, n). rows,
// columns: a matrix in tiles of BM x BN; group: of their order. GemmConfig says what the other parameters are.
template <class T, int BM, int BN, int GM, int GN, int STAGES, bool AT_ONCE, bool A_MN_MAJOR, bool B_MN_MAJOR>
__global__ void __launch_bounds__((1 + GM * GN) * 128, 1) batched_matmul_deferred_stores(
    const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const __grid_constant__ TensorMap c,
    int a_step, int b_step, int batch, int k, int rows, int columns, int group) {
  using P = sm90::GemmConfig<T, BM, BN, GM, GN, STAGES, 1, 1, A_MN_MAJOR, B_MN_MAJOR>;
  many::multiply<P, AT_ONCE>(
      a, b, c, Batch{{rows, columns, group}, batch, a_step, b_step, (k + sm90::kTileK - 1) / sm90::kTileK});
}
