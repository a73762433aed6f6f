// TMA: tensor maps, bulk tensor copies and their cache policies. sm_90 and later.
#pragma once

namespace warpwise {
namespace sm90 {

// CUtensorMap, made by warpwise.cuda.tensor_map.
struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};

// Prefetches a tensor map, which hides the latency of its first use.
__device__ inline void prefetch_tensormap(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Loads a box to shared memory; x is its first column, y its first row. The bytes count towards `barrier`.
__device__ inline void tma_load_2d(unsigned to, const TensorMap* map, unsigned barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::
          "r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}

// The same for a batch, where z is the matrix.
__device__ inline void tma_load_3d(unsigned to, const TensorMap* map, unsigned barrier, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}

// Multicast: the same address and barrier in every block of the cluster whose bit is set in `blocks`.
__device__ inline void tma_load_2d_multicast(unsigned to, const TensorMap* map, unsigned barrier, int x, int y,
                                             unsigned short blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "h"(blocks)
      : "memory");
}

// An L2 cache policy, as createpolicy returns it.
using CachePolicy = unsigned long long;

// evict_first for all lines: data that is read once does not evict other data from L2, and does not force dirty lines
// to be written back.
__device__ inline CachePolicy createpolicy_evict_first() {
  CachePolicy policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// The loads above with an L2 cache policy.
__device__ inline void tma_load_2d(unsigned to, const TensorMap* map, unsigned barrier, int x, int y,
                                   CachePolicy policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "l"(policy)
      : "memory");
}

__device__ inline void tma_load_2d_multicast(unsigned to, const TensorMap* map, unsigned barrier, int x, int y,
                                             unsigned short blocks, CachePolicy policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      ".L2::cache_hint [%0], [%1, {%3, %4}], [%2], %5, %6;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "h"(blocks), "l"(policy)
      : "memory");
}

// Stores a box from shared memory, as a separate bulk group.
__device__ inline void tma_store_2d(const TensorMap* map, unsigned from, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(from),
               "r"(x), "r"(y)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

__device__ inline void tma_store_3d(const TensorMap* map, unsigned from, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
               "r"(from), "r"(x), "r"(y), "r"(z)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until all but the last `PENDING` stores of this thread have read their shared memory.
template <int PENDING>
__device__ inline void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

// Orders earlier generic-proxy accesses of shared memory before later accesses by TMA and wgmma (async proxy).
__device__ inline void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace sm90
}  // namespace warpwise
