// Hopper by hand: products by warpgroups, boxes by the copy engine, and the arithmetic of the activation under
// products.
//
// What k04 leaves idle is the matrix units while a tile is finished: some 3000 clocks of exponentials and reciprocals
// for each 65536 of products at K = 4096. Here one warpgroup finishes its half tile while the other one still
// multiplies.

#include <warpwise/finished_product.cuh>

namespace finished = warpwise::finished;
using warpwise::hopper::TensorMap;

// x: (m, k), or across (k, m); w: (n, k), or across (k, n); y, residual, before: (m, n), as maps with boxes of 64 x 64.
// Grid, block and shared memory: `finished_product`. y = activated(scale * x w^T + bias) + residual.
template <class T, int ACTIVATION, bool X_ACROSS, bool W_ACROSS, bool RESIDUAL, bool KEEP, int LAG>
__global__ void __launch_bounds__(finished::kThreads, 1) __cluster_dims__(finished::kCluster, 1, 1)
    linear_warpgroups(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w,
                      const __grid_constant__ TensorMap y, const __grid_constant__ TensorMap residual,
                      const __grid_constant__ TensorMap before, const T* bias, const T* scale, int m, int n, int k,
                      int pairs, int columns, int group) {
  finished::finished_product<T, ACTIVATION, X_ACROSS, W_ACROSS, RESIDUAL, KEEP, LAG>(
      {&x, &w, &y, &residual, &before}, {bias, scale, 1.0f, 1.0f, 1.0f}, m, n, k, pairs, columns, group);
}
