// mbarriers: 8 bytes of shared memory each, named by their shared address. sm_90 and later.
#pragma once

namespace warpwise {
namespace sm90 {

__device__ inline void mbarrier_init(unsigned barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes mbarrier initialisation visible to the async proxy (TMA) and to the other blocks of the cluster.
__device__ inline void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// Arrives once, and adds `bytes` of pending TMA transfers to the current phase.
__device__ inline void mbarrier_arrive_expect_tx(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Arrives at the barrier at this address in block `rank` of the cluster. The default ordering suffices for consumers
// that only read; a release at cluster scope reduces a kernel's speed by a third on an H200.
__device__ inline void mbarrier_arrive(unsigned barrier, unsigned rank) {
  asm volatile(
      "{\n.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

// The same at an address of `mapa`.
__device__ inline void mbarrier_arrive_mapped(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives at a barrier of this block.
__device__ inline void mbarrier_arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives once all earlier cp.async copies of this thread are complete (noinc: a counted arrival).
__device__ inline void cp_async_mbarrier_arrive(unsigned barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// Waits until the phase of this parity is complete.
__device__ inline void mbarrier_wait(unsigned barrier, unsigned parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "WAITING:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra WAITING;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// The same with acquire at cluster scope: stores of other blocks for this phase (`st_async_v4`) are visible.
__device__ inline void mbarrier_wait_cluster(unsigned barrier, unsigned parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "WAITING:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra WAITING;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

}  // namespace sm90
}  // namespace warpwise
