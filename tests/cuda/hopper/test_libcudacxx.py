"""Kernels as in NVIDIA's programming guide: TMA by cuda::barrier, cuda::device::experimental and cuda::ptx."""

from __future__ import annotations

import pytest
import torch

from warpwise import cuda

SOURCE = r"""
#include <cuda/barrier>
#include <cuda/ptx>
#include <utility>
namespace cde = cuda::device::experimental;
namespace ptx = cuda::ptx;
using barrier = cuda::barrier<cuda::thread_scope_block>;

// Adds one to a tile of 8 x 32 ints. bug 1: no proxy fence before the store; 2: fewer bytes are expected.
__global__ void add_tile(const __grid_constant__ CUtensorMap map, int x, int y, int bug) {
  __shared__ alignas(128) int tile[8][32];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ barrier bar;
  if (threadIdx.x == 0) {
    init(&bar, blockDim.x);
    cde::fence_proxy_async_shared_cta();
  }
  __syncthreads();
  barrier::arrival_token token;
  if (threadIdx.x == 0) {
    cde::cp_async_bulk_tensor_2d_global_to_shared(&tile, &map, x, y, bar);
    token = cuda::device::barrier_arrive_tx(bar, 1, bug == 2 ? sizeof(tile) / 2 : sizeof(tile));
  } else {
    token = bar.arrive();
  }
  bar.wait(std::move(token));
  for (int row = 0; row < 8; ++row) tile[row][threadIdx.x] += 1;
  if (bug != 1) cde::fence_proxy_async_shared_cta();
  __syncthreads();
  if (threadIdx.x == 0) {
    cde::cp_async_bulk_tensor_2d_shared_to_global(&map, x, y, &tile);
    cde::cp_async_bulk_commit_group();
    cde::cp_async_bulk_wait_group_read<0>();
  }
}

// The same for 64 successive ints, by cuda::ptx.
__global__ void add_bytes(int* data, int bug) {
  __shared__ alignas(16) int part[64];
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&bar, 32);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  __syncthreads();
  uint64_t state;
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, part, data + blockIdx.x * 64, sizeof(part), &bar);
    state = ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &bar, sizeof(part));
  } else {
    state = ptx::mbarrier_arrive(&bar);
  }
  if (bug != 1)
    while (!ptx::mbarrier_try_wait(&bar, state)) {
    }
  part[threadIdx.x] += 1, part[32 + threadIdx.x] += 1;
  ptx::fence_proxy_async(ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, data + blockIdx.x * 64, part, sizeof(part));
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
  }
}
"""


def tiles(bug: int, order: str = "forward") -> list[cuda.Finding]:
    data = torch.arange(16 * 64, dtype=torch.int32).view(16, 64)
    wanted = data.clone()
    wanted[4:12, 32:] += 1
    found = cuda.load(SOURCE)["add_tile"][1, 32].check(
        cuda.tensor_map(data, (8, 32), swizzle=0), 32, 4, bug, order=order
    )
    assert found or torch.equal(data, wanted)
    return found


def parts(bug: int, order: str = "forward") -> list[cuda.Finding]:
    data = torch.arange(128, dtype=torch.int32)
    found = cuda.load(SOURCE)["add_bytes"][2, 32].check(data, bug, order=order)
    assert found or torch.equal(data, torch.arange(1, 129, dtype=torch.int32))
    return found


@pytest.mark.parametrize("order", ["forward", "reverse", "shuffle"])
def test_correct_kernels_have_no_finding(order):
    assert tiles(0, order) == [] and parts(0, order) == []


@pytest.mark.parametrize(
    "check,bug,kind,message",
    [
        (tiles, 1, cuda.DataRace, "without a fence.proxy.async"),
        (tiles, 2, cuda.Deadlock, "bytes"),
        (parts, 1, cuda.DataRace, "asynchronous copy"),
    ],
)
def test_their_bugs_are_found_at_a_line_of_the_kernel(check, bug, kind, message):
    found = check(bug)
    assert any(each.kind is kind and message in str(each) for each in found), found
    assert all(each.access.file == "kernel.cu" and each.access.line for each in found if each.access)
