// Hopper's asynchronous machinery by PTX: mbarriers, the copy engine (TMA) and warpgroup matrix products. sm_90a only.
#pragma once

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

__device__ inline void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ inline unsigned cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
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

// ---- Warpgroup matrix products: D (64 x N, registers) += A (64 x 16) B (16 x N), both in shared memory

// A matrix of 2-byte elements in shared memory, in units of 8 rows x 128 bytes that the 128-byte swizzle permutes.
// `stride` is the distance of such units along the operand's rows of 128 bytes; `leading` that of the next 64 elements
// of a row, which matters where M or N runs along the rows (a row-major B). Bytes; all multiples of 16.
__device__ inline unsigned long long matrix(unsigned address, unsigned leading, unsigned stride) {
  return static_cast<unsigned long long>((address & 0x3ffff) >> 4) |
         static_cast<unsigned long long>(leading >> 4) << 16 | static_cast<unsigned long long>(stride >> 4) << 32 |
         1ull << 62;
}

__device__ inline void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until all but `PENDING` committed groups are done.
template <int PENDING>
__device__ inline void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

#define WW_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define WW_D16(i) WW_D4(i), WW_D4(i + 4), WW_D4(i + 8), WW_D4(i + 12)
#define WW_D128 WW_D16(0), WW_D16(16), WW_D16(32), WW_D16(48), WW_D16(64), WW_D16(80), WW_D16(96), WW_D16(112)
#define WW_PRODUCT_64X256(TYPE)                                                                                        \
  asm volatile(                                                                                                        \
      "{\n.reg .pred adds;\nsetp.ne.b32 adds, %130, 0;\n"                                                              \
      "wgmma.mma_async.sync.aligned.m64n256k16.f32." TYPE "." TYPE                                                     \
      " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, "    \
      "%23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, " \
      "%45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, " \
      "%67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, " \
      "%89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, "  \
      "%109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, "   \
      "%127}, %128, %129, adds, 1, 1, 0, 1;\n}"                                                                        \
      : WW_D128                                                                                                        \
      : "l"(a), "l"(b), "r"(adds))

// A row-major with K along the rows, B row-major with N along them; without `adds` the product replaces D.
// D: lane l of warp w holds, of rows 16 w + l / 4 (+ 8) and columns 8 j + 2 (l % 4) (+ 1), elements 4 j + 2 half +
// column.
template <class T>
__device__ inline void product_64x256(float (&d)[128], unsigned long long a, unsigned long long b, bool adds);

#ifdef __CUDA_BF16_TYPES_EXIST__
template <>
__device__ inline void product_64x256<__nv_bfloat16>(float (&d)[128], unsigned long long a, unsigned long long b,
                                                     bool keeps) {
  const int adds = keeps;
  WW_PRODUCT_64X256("bf16");
}
#endif
#ifdef __CUDA_FP16_TYPES_EXIST__
template <>
__device__ inline void product_64x256<__half>(float (&d)[128], unsigned long long a, unsigned long long b, bool keeps) {
  const int adds = keeps;
  WW_PRODUCT_64X256("f16");
}
#endif
#undef WW_PRODUCT_64X256
#undef WW_D128
#undef WW_D16
#undef WW_D4

// Four 8 x 8 matrices of 2-byte elements from registers to shared memory; lane l gives the address of row l % 8 of
// matrix l / 8.
__device__ inline void store_matrices(unsigned address, const unsigned (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r[0]), "r"(r[1]),
               "r"(r[2]), "r"(r[3])
               : "memory");
}

}  // namespace hopper
}  // namespace warpwise
