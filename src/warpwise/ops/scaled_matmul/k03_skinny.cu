// Few rows: columns of B take the M dimension of wgmma; the tile width is chosen so that one wave covers C.
//
// With few rows the time is that of reading B once, and L2 traffic matters as much: each tile reads all rows of A.
// Tile widths are multiples of 8 columns, one of which gives each SM one tile. For more rows of A, wide tiles share
// them and blocks split K instead, in a cluster and through global memory. The kernel is that of gemm_skinny.cuh.
//
// The smallest sizes are bound by latency: the first boxes are loaded before the block synchronises, scales are loaded
// before the main loop, and each warpgroup stores its sums without waiting for others.

#include <cuda_fp8.h>

#include <warpwise/sm90/gemm_skinny.cuh>

#include "policies.cuh"

namespace skinny = warpwise::skinny;

// Scales of a warp's 16 columns of B and ROWS rows of A. A lane holds those of its two columns, and of every 32nd row;
// without ROWWISE one of each.
template <bool ROWWISE, int ROWS>
struct Scales {
  float columns[2], rows[(ROWS + 31) / 32];

  // The scale of row 8 * eight + row_in_group, which differs between lanes.
  __device__ float row(int eight, int row_in_group) const {
    return ROWWISE ? __shfl_sync(0xffffffffu, rows[eight / 4], eight % 4 * 8 + row_in_group) : rows[0];
  }
};

// C in bfloat16 with scales: one each, or (m,) and (n,) if ROWWISE. Each warpgroup has 4 KiB of staging memory, for 32
// rows.
template <bool ROWWISE>
struct ScaledRows : skinny::Rows<__nv_bfloat16, 4096> {
  const float *scale_a, *scale_b;

  template <int ROWS>
  __device__ Scales<ROWWISE, ROWS> scales(int row, int column) const {
    const int lane = threadIdx.x % 32, first = column + threadIdx.x % skinny::kWarpgroupThreads / 32 * 16 + lane / 4;
    Scales<ROWWISE, ROWS> scales;
#pragma unroll
    for (int i = 0; i < 2; ++i) scales.columns[i] = scale_b[ROWWISE ? min(first + i * 8, this->n - 1) : 0];
#pragma unroll
    for (int i = 0; i < (ROWS + 31) / 32; ++i)
      scales.rows[i] = scale_a[ROWWISE ? min(row + i * 32 + lane, this->m - 1) : 0];
    return scales;
  }
};

// a: (m, k), b: (n, k), tensor maps with boxes of GROUPS_M * ROWS x 128 and `columns` x 128; c: (m, n), row-major,
// `aligned` if its rows are 16-byte aligned. Stages of 128 BOXES of K. evict_first: of both operands. Cluster:
// SPLIT splits of K. Grid: (cdiv(n, columns) * SPLIT, cdiv(m, GROUPS_M * ROWS), splits). Dynamic shared memory: as for
// skinny::gemm.
template <class A, class B, int GROUPS_N, int GROUPS_M, int ROWS, int BOXES, int SPLIT, int PRODUCERS, bool ROWWISE>
__global__ void __launch_bounds__(GROUPS_N * GROUPS_M * 128 + PRODUCERS, 1) __cluster_dims__(SPLIT, 1, 1)
    scaled_matmul_skinny(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
                         __nv_bfloat16* c, float* partials, int* semaphores, bool aligned, int m, int n, int k,
                         int columns, int stages, bool evict_first, const float* __restrict__ scale_a,
                         const float* __restrict__ scale_b) {
  using Shape = skinny::Shape<GROUPS_N, GROUPS_M, ROWS, BOXES, 32, PRODUCERS>;
  const int tile_n = blockIdx.x / SPLIT, tile = blockIdx.y * (gridDim.x / SPLIT) + tile_n;
  const skinny::Work work = {tile, static_cast<int>(blockIdx.y) * Shape::kTileRows, tile_n * columns,
                             static_cast<int>(blockIdx.z), static_cast<int>(gridDim.z)};
  const auto policy = [=] { return l2_policy(evict_first); };
  skinny::gemm<Shape, SPLIT, true>(a, skinny::SharedB<sm90::Pair<B, A>, true>{&b},
                                   ScaledRows<ROWWISE>{{c, aligned, m, n}, scale_a, scale_b}, work, k, columns, stages,
                                   partials, semaphores, policy);
}
