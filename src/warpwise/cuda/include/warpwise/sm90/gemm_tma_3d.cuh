// TMA for batches: boxes of three dimensions, where x is the column, y the row, z the matrix.
#pragma once

#include <warpwise/sm90/tma.cuh>

namespace warpwise {
namespace sm90 {

__device__ inline void tma_load_3d(unsigned to, const TensorMap* map, unsigned barrier, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}

__device__ inline void tma_store_3d(const TensorMap* map, unsigned from, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
               "r"(from), "r"(x), "r"(y), "r"(z)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

}  // namespace sm90
}  // namespace warpwise
