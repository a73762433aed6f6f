// Hopper by hand: products by warpgroups, the matrix that is added by the copy engine under the products.
//
// C's boxes take the room that D's will leave through: they arrive once the last tile has left, wait for the sums to be
// done, and are overwritten where they lie.

#include <warpwise/finished_product.cuh>

namespace finished = warpwise::finished;
using warpwise::hopper::TensorMap;

// a: (m, k), or across (k, m); b: (n, k), or across (k, n); result, c: (m, n), as maps with boxes of 64 x 64; c is
// added where ADDED, the row (n), which may be null, elsewhere. Grid, block and shared memory: `finished_product`.
template <class T, bool A_ACROSS, bool B_ACROSS, bool ADDED, bool KEEP, int LAG>
__global__ void __launch_bounds__(finished::kThreads, 1) __cluster_dims__(finished::kCluster, 1, 1)
    addmm_warpgroups(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                     const __grid_constant__ TensorMap result, const __grid_constant__ TensorMap c, const T* row,
                     float alpha, float beta, int m, int n, int k, int pairs, int columns, int group) {
  static_assert(!KEEP, "there is nothing to keep before the result");
  finished::finished_product<T, warpwise::kIdentity, A_ACROSS, B_ACROSS, ADDED, KEEP, LAG>(
      {&a, &b, &result, &c, &result}, {row, nullptr, alpha, beta, beta}, m, n, k, pairs, columns, group);
}
