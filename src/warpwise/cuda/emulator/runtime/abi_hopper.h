// The part of the ABI that only the interpreter of PTX calls: places in the kernel, mbarriers, bulk copies and wgmma.
#pragma once
#include <functional>
#include <vector>

#include "abi.h"

// Addresses are generic. An mbarrier is identified by its address, as a cuda::barrier is; see ww_barrier_init.

// The operands of one wgmma, which the first thread of the warpgroup to execute it decodes (`first`).
struct ww_wgmma {
  std::vector<float>*a, *b;
  bool first;
};
// Combines the bytes at `to` with those at `data`, at the delivery of a copy that reduces.
using ww_combine = std::function<void(char* to, const char* data, size_t bytes)>;
// A bulk copy to shared memory that reduces.
void ww_bulk_reduce(void* to, const void* data, size_t bytes, void* barrier, int line, ww_combine combine);
extern "C" {
bool* ww_carry();                         // PTX's condition code CC.CF of the thread
void ww_executes_ptx(const void* place);  // the asm statement that the thread executes, or null

void ww_mbarrier_init(void* barrier, unsigned expected, int line);
void ww_mbarrier_invalidate(void* barrier, int line);
void ww_mbarrier_expect(void* barrier, int64_t bytes, int line);  // expect_tx, and with negative bytes complete_tx
uint64_t ww_mbarrier_arrive(void* barrier, unsigned count, int drop, int line);  // returns the phase
int ww_mbarrier_wait(void* barrier, uint64_t phase, int is_parity, int blocks, int line);
unsigned ww_mbarrier_pending(void* barrier, int line);

// A bulk copy to shared memory that completes `bytes` at the barrier; `data` are the bytes in their order there, with a
// swizzle of 0, 32, 64 or 128 bytes.
void ww_bulk_load(void* to, const void* data, size_t bytes, unsigned swizzle, void* barrier, int line);
unsigned ww_swizzle_of(const void* shared);                     // of the bulk copy that loaded it, or ~0
void ww_bulk_source(const void* from, size_t bytes, int line);  // a bulk load reads these bytes
void ww_bulk_store(void* to, const void* data, size_t bytes, int line);
void ww_bulk_commit();
void ww_bulk_wait(unsigned still_pending, int only_reads);
// A read of shared memory through the async proxy, by "wgmma" or a bulk copy.
void ww_async_read(const void* from, size_t bytes, const char* what, int line);
// The read of shared memory by a bulk copy that completes at an mbarrier; it is done at once.
void ww_copy_source(const void* from, size_t bytes, int line);
void ww_proxy_fence();
void ww_mbarrier_init_fence();
void* ww_argument_address(uint64_t host);  // of a byte of an argument, on the host or in the emulator's copy; or null

// Tensor maps of 128 bytes: a use by TMA, and the two sides of fence.proxy.tensormap.
void ww_tensor_map_read(const void* map, int line);
void ww_tensor_map_release();
void ww_tensor_map_acquire(const void* map);

ww_wgmma ww_wgmma_begin(int line);  // waits until the operands are decoded, unless `first`
void ww_wgmma_decoded();
void ww_wgmma_end();
void ww_wgmma_fence();
void ww_wgmma_commit();
void ww_wgmma_wait(unsigned still_pending, int line);
char* ww_from_descriptor(unsigned address, int line);
}
