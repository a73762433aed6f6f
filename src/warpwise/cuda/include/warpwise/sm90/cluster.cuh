// Thread block clusters: barriers, and distributed shared memory. sm_90 and later.
#pragma once

namespace warpwise {
namespace sm90 {

// Barrier of all threads of the cluster, with release and acquire.
__device__ inline void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The two halves of a cluster barrier without memory ordering: enough for blocks that wait for each other's initialised
// mbarriers (fence_mbarrier_init) or finished wgmma. The release in cluster_sync is a fence of global memory.
__device__ inline void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ inline void cluster_sync_relaxed() {
  cluster_arrive_relaxed();
  cluster_wait();
}

// Rank of this block in its cluster.
__device__ inline unsigned cluster_ctarank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Loads four floats from the shared memory of block `rank` of the cluster; `address` is as in this block.
__device__ inline void ld_shared_cluster_v4(float (&v)[4], unsigned address, unsigned rank) {
  asm volatile(
      "{\n.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %4, %5;\n"
      "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [remote];\n}"
      : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
      : "r"(address), "r"(rank)
      : "memory");
}

// The shared::cluster address, in block `rank`, that corresponds to `address` in this block.
__device__ inline unsigned mapa(unsigned address, unsigned rank) {
  unsigned there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

// Stores four floats to another block's shared memory and completes 16 bytes at `barrier` of that block. Both
// addresses come from `mapa`.
__device__ inline void st_async_v4(unsigned to, unsigned barrier, const float* v) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
      "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(barrier)
      : "memory");
}

}  // namespace sm90
}  // namespace warpwise
