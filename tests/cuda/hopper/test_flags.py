"""Data that one block writes and another reads by a bulk copy, with a flag in global memory between them."""

from __future__ import annotations

import pytest
import torch

from warpwise import cuda

SOURCE = r"""
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/cluster.cuh>
#include <warpwise/sm90/mbarrier.cuh>
#include <warpwise/sm90/tma.cuh>
#include <warpwise/sm90/warpgroup.cuh>
namespace sm90 = warpwise::sm90;

__device__ void set_flag(int* flag) { asm volatile("st.release.gpu.global.s32 [%0], 1;" :: "l"(flag) : "memory"); }
__device__ void wait_for(int* flag) {
  int ready;
  do asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(ready) : "l"(flag) : "memory");
  while (!ready);
}
__device__ void fence_proxy_async_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
__device__ void load_bulk(unsigned to, const void* from, unsigned bytes, unsigned barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}

// Even blocks write 32 float4; a warp of its own signals them. Odd blocks load them by TMA.
extern "C" __global__ void pass(float4* data, int* flags, float* out, int bug) {
  __shared__ alignas(128) float4 loaded[32];
  __shared__ unsigned long long barrier;
  const unsigned at = warpwise::shared_address(&barrier);
  const int pair = blockIdx.x / 2;
  if (blockIdx.x % 2 == 0) {
    if (threadIdx.x < 32) {
      data[pair * 32 + threadIdx.x] = make_float4(pair, threadIdx.x, 2, 3);
      if (bug != 1) fence_proxy_async_global();
      if (bug != 2) sm90::named_barrier_sync(3, 64);
    } else {
      if (bug != 2) sm90::named_barrier_sync(3, 64);
      if (threadIdx.x == 32) set_flag(flags + pair);
    }
  } else if (threadIdx.x == 0) {
    sm90::mbarrier_init(at, 1);
    sm90::fence_mbarrier_init();
    if (bug != 3) wait_for(flags + pair);
    if (bug != 1) fence_proxy_async_global();
    flags[pair] = 0;  // a weak write: the acquire orders it after the release
    sm90::mbarrier_arrive_expect_tx(at, sizeof loaded);
    load_bulk(warpwise::shared_address(loaded), data + pair * 32, sizeof loaded, at);
    sm90::mbarrier_wait(at, 0);
    for (int i = 0; i < 32; ++i) out[pair * 32 + i] = loaded[i].x * 100 + loaded[i].y;
  }
}

// Warps 0 and 1 of each block meet at the same named barrier; those of odd blocks arrive later.
extern "C" __global__ void meet(int* out) {
  __shared__ int value;
  if (threadIdx.x < 32) {
    if (blockIdx.x % 2)
      for (int i = 0; i < 300; ++i) __nanosleep(10);
    if (threadIdx.x == 0) value = blockIdx.x;
    sm90::named_barrier_sync(1, 64);
  } else {
    sm90::named_barrier_sync(1, 64);
    if (threadIdx.x == 32) out[blockIdx.x] = value;
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) set_flag(out + gridDim.x);
  if (blockIdx.x && threadIdx.x == 0) wait_for(out + gridDim.x);  // all blocks are resident at once
}
"""
ORDERS = ["forward", "reverse", "shuffle"]


def passed(bug: int, order: str) -> list[cuda.Finding]:
    data, out = torch.zeros(64, 4), torch.zeros(64)
    found = cuda.load(SOURCE)["pass"][4, 64].check(data, torch.zeros(2, dtype=torch.int32), out, bug, order=order)
    if not found:
        assert torch.equal(out.view(2, 32), torch.arange(2.0)[:, None] * 100 + torch.arange(32.0))
    return found


@pytest.mark.parametrize("order", ORDERS)
def test_a_flag_orders_writes_and_a_bulk_copy(order):
    """The flag is reset by a weak write, and the writing threads reach the flag by a named barrier."""
    assert passed(0, order) == []


@pytest.mark.whole
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "bug,message", [(1, "without a fence.proxy.async"), (2, "copy and write"), (3, "are not ordered")]
)
def test_its_bugs_are_found(bug, message, order):
    """No proxy fence; no barrier between the writes and the flag; no wait for the flag."""
    found = passed(bug, order)
    # Without the wait, the write may come second: it races with the read of the copy.
    assert any(each.kind is cuda.DataRace and (message in str(each) or bug == 2) for each in found), found


@pytest.mark.parametrize("order", ORDERS)
def test_named_barriers_of_two_blocks_are_two_barriers(order):
    out = torch.zeros(5, dtype=torch.int32)
    assert cuda.load(SOURCE)["meet"][4, 64].check(out, order=order) == []
    assert out.tolist() == [0, 1, 2, 3, 1]
