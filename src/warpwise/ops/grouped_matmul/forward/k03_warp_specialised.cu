// Float32: the warp-specialised blocks of batched_matmul's k02 over the tiles of all groups, found on the device.
//
// Rows of A past the end of a group are not loaded.

#include <warpwise/sm90/gemm_batched_simt.cuh>

#include "group_rows.cuh"

namespace sm90 = warpwise::sm90;
using warpwise::OperandLoad, sm90::BatchOperand, sm90::TensorMap, sm90::kThreads;

// The tiles of groups of rows, as sm90::BatchTiles. order: tile rows of a raster group.
template <int BM, int BN, OperandLoad LOAD_A>
struct GroupTiles : GroupRows<BM> {
  static constexpr bool may_be_empty = true;
  int order, k_tiles_of_all;
  __device__ GroupTiles(const GroupRows<BM>& rows, int order, int k_tiles_of_all)
      : GroupRows<BM>(rows), order(order), k_tiles_of_all(k_tiles_of_all) {}
  __device__ int matrix(int) const { return min(this->group, this->count - 1); }
  __device__ int2 corner(int tile) const {
    return warpwise::tile_at(tile - this->before, this->rows(), this->columns, order, BM, BN);
  }
  __device__ int height() const { return this->end - this->begin; }
  __device__ int k_tiles() const { return this->has_matrix() ? k_tiles_of_all : 0; }
  __device__ long long first_row_of_c(int) const { return this->begin; }
  __device__ long long offset_of_a(int, const BatchOperand& a) const {
    return this->begin * (LOAD_A == warpwise::kKMajor ? a.first.stride : 1);
  }
};

template <int BM, int BN, int TILE_K, int STAGES, OperandLoad LOAD_A, OperandLoad LOAD_B>
__device__ __forceinline__ void multiply(const float* a, long long a_stride, const TensorMap* b_map,
                                         const BatchOperand& b, float* __restrict__ c, const int* ends, int groups,
                                         int rows, int columns, int order) {
  const GroupTiles<BM, BN, LOAD_A> tiles({ends, groups, rows, columns}, order, (b.first.k + TILE_K - 1) / TILE_K);
  sm90::multiply_matrices<BM, BN, TILE_K, STAGES, LOAD_A, LOAD_B>(nullptr, b_map, {{a, a_stride, rows, b.first.k}, 0},
                                                                  b, c, tiles);
}

// a: (rows, k), b: (groups, k, n), c: (rows, n), row-major; ends: (groups,); columns: tiles of a row of c; order: tile
// rows of a raster group. Grid: at most two blocks per SM. Dynamic shared memory: as batched_matmul's k02.
template <int BM, int BN, int TILE_K, int STAGES, OperandLoad LOAD_A>
__global__ void __launch_bounds__(kThreads, 2) grouped_matmul_tma_b(const float* __restrict__ a, long long a_stride,
                                                                    const __grid_constant__ TensorMap b,
                                                                    long long b_matrix, float* __restrict__ c,
                                                                    const int* __restrict__ ends, int groups, int rows,
                                                                    int n, int k, int columns, int order) {
  multiply<BM, BN, TILE_K, STAGES, LOAD_A, warpwise::kTma>(a, a_stride, &b, {{nullptr, 0, n, k}, b_matrix}, c, ends,
                                                           groups, rows, columns, order);
}

template <int BM, int BN, int TILE_K, int STAGES, OperandLoad LOAD_A, OperandLoad LOAD_B>
__global__ void __launch_bounds__(kThreads, 2) grouped_matmul_cp_async(const float* __restrict__ a, long long a_stride,
                                                                       const float* __restrict__ b, long long b_stride,
                                                                       long long b_matrix, float* __restrict__ c,
                                                                       const int* __restrict__ ends, int groups,
                                                                       int rows, int n, int k, int columns, int order) {
  multiply<BM, BN, TILE_K, STAGES, LOAD_A, LOAD_B>(a, a_stride, nullptr, {{b, b_stride, n, k}, b_matrix}, c, ends,
                                                   groups, rows, columns, order);
}
