// Hopper's asynchronous machinery by PTX: mbarriers, the copy engine (TMA) and warpgroup matrix products. sm_90a only.
#pragma once

#include <warpwise/products.cuh>

namespace warpwise {
namespace hopper {

// What warpwise.cuda.tensor_map makes (CUtensorMap).
struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};

__device__ inline unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// ---- mbarriers, 8 bytes of shared memory each, named by their shared address

__device__ inline void barrier_init(unsigned barrier, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes initialised barriers known to the copy engine and to the other blocks of the cluster.
__device__ inline void barrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// One arrival; the phase also waits for `bytes` that the copy engine is to bring.
__device__ inline void barrier_expect(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// An arrival at the barrier that lies at this address in block `rank` of the cluster. The default ordering suffices for
// readers of matrices; a release at cluster scope cost a third of the kernel's speed on an H200.
__device__ inline void barrier_arrive(unsigned barrier, unsigned rank) {
  asm volatile(
      "{\n.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

// The same at a barrier of this block.
__device__ inline void barrier_arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// An arrival, counted among the expected, once this thread's cp.async copies so far have landed.
__device__ inline void barrier_arrive_after_copies(unsigned barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// Returns once the phase of this parity is complete.
__device__ inline void barrier_wait(unsigned barrier, unsigned parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "WAITING:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra WAITING;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// The same, and what other blocks of the cluster have stored for this phase (`store_to_block`) is seen.
__device__ inline void barrier_wait_for_blocks(unsigned barrier, unsigned parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "WAITING:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra WAITING;\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

__device__ inline void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The two halves of that barrier, each once for every thread, ordering nothing: for blocks that wait for each other to
// have initialised barriers (barrier_init_fence) or to have ended products. The release above is a fence of the GPU's
// memory.
__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ inline void cluster_meet() {
  cluster_arrive();
  cluster_wait();
}

__device__ inline unsigned cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// True in one thread of a warp that is here as a whole: the compiler knows that what it does is done once.
__device__ inline bool elected() {
  unsigned is;
  asm volatile("{\n.reg .pred is;\nelect.sync _|is, 0xffffffff;\nselp.u32 %0, 1, 0, is;\n}" : "=r"(is));
  return is;
}

// A barrier of `threads` threads, whole warps; id 0 is __syncthreads().
__device__ inline void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// ---- The copy engine. x counts columns, y rows.

__device__ inline void load_box(unsigned to, const TensorMap* map, unsigned barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::
          "r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}

// The same to this address, and by this barrier, in every block of the cluster whose bit is set.
__device__ inline void load_box_multicast(unsigned to, const TensorMap* map, unsigned barrier, int x, int y,
                                          unsigned short blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "h"(blocks)
      : "memory");
}

// What L2 is to do with lines, as createpolicy gives it.
using Policy = unsigned long long;

// Lines that L2 drops before others. What passes by once does not push out what else L2 holds, and written lines are
// not written back to make room.
__device__ inline Policy evict_first() {
  Policy policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// The loads above with a policy for what they bring into L2.
__device__ inline void load_box(unsigned to, const TensorMap* map, unsigned barrier, int x, int y, Policy policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "l"(policy)
      : "memory");
}

__device__ inline void load_box_multicast(unsigned to, const TensorMap* map, unsigned barrier, int x, int y,
                                          unsigned short blocks, Policy policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      ".L2::cache_hint [%0], [%1, {%3, %4}], [%2], %5, %6;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "h"(blocks), "l"(policy)
      : "memory");
}

__device__ inline void store_box(const TensorMap* map, unsigned from, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(from),
               "r"(x), "r"(y)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until all but `PENDING` of this thread's stores have read their shared memory.
template <int PENDING>
__device__ inline void stores_have_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

__device__ inline void stores_are_done() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// Orders ordinary stores to shared memory before what the copy engine or the matrix units read of it.
__device__ inline void async_proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- Registers, moved between warpgroups

template <int REGISTERS>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

template <int REGISTERS>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// Four 8 x 8 matrices of 2-byte elements from registers to shared memory; lane l gives the address of row l % 8 of
// matrix l / 8.
__device__ inline void store_matrices(unsigned address, const unsigned (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r[0]), "r"(r[1]),
               "r"(r[2]), "r"(r[3])
               : "memory");
}

// The same, each matrix transposed.
__device__ inline void store_matrices_transposed(unsigned address, const unsigned (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r[0]),
               "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
}

// The reverse: four 8 x 8 matrices of 2-byte elements from shared memory to registers.
__device__ inline void load_matrices(unsigned address, unsigned (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// Two neighbouring 4-byte elements from registers to shared memory, by one instruction.
__device__ inline void store_pair(unsigned address, int first, int second) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(address), "r"(first), "r"(second) : "memory");
}

// Four floats of the shared memory of block `rank` of the cluster, at the address that they have there.
__device__ inline void load_of_block(float (&v)[4], unsigned address, unsigned rank) {
  asm volatile(
      "{\n.reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %4, %5;\n"
      "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [remote];\n}"
      : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
      : "r"(address), "r"(rank)
      : "memory");
}

// What lies at `address` in this block's shared memory, in block `rank` of the cluster.
__device__ inline unsigned in_block(unsigned address, unsigned rank) {
  unsigned there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

// Four floats to another block's shared memory, where they count as 16 bytes at `barrier` of that block: both as
// `in_block` gives them.
__device__ inline void store_to_block(unsigned to, unsigned barrier, const float* v) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
      "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(barrier)
      : "memory");
}

// 16 bytes of shared memory.
__device__ inline void load_quad(float (&v)[4], unsigned address) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
               : "r"(address)
               : "memory");
}
__device__ inline void load_quad(unsigned (&v)[4], unsigned address) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(address)
               : "memory");
}

}  // namespace hopper
}  // namespace warpwise
