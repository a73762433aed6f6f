"""Bugs planted in a warp-specialised GEMM for Hopper: the correct kernel has no finding, and each bug has one.

The kernel is a twin of the rungs: a producer warp loads k-tiles by TMA into a ring of stages, a warpgroup multiplies
them by wgmma and stores tiles of C by TMA. Its argument ``bug`` selects a line, or a value, that is wrong.
"""

from __future__ import annotations

import re

import pytest
import torch

from warpwise import cuda

SOURCE = r"""
#include <cuda_fp16.h>
#include <warpwise/core/shared_memory.cuh>
#include <warpwise/sm90/cluster.cuh>
#include <warpwise/sm90/pipeline.cuh>
#include <warpwise/sm90/tma.cuh>
#include <warpwise/sm90/warpgroup.cuh>
#include <warpwise/sm90/wgmma.cuh>
namespace sm90 = warpwise::sm90;

constexpr int kStages = 2, kBytes = 64 * 64 * 2;

// c (tiles * 64, 64) = a (tiles * 64, k) b (64, k)^T: one block; the tiles one after the other.
extern "C" __global__ void __launch_bounds__(160)
    gemm(const __grid_constant__ sm90::TensorMap a, const __grid_constant__ sm90::TensorMap b,
         const __grid_constant__ sm90::TensorMap c, int tiles, int k_tiles, int bug) {
  extern __shared__ __align__(1024) unsigned char raw[];
  const unsigned stages = warpwise::shared_address(raw), staging = stages + kStages * 2 * kBytes;
  const sm90::Pipeline pipeline(staging + kBytes, kStages);
  if (threadIdx.x == 0) {
    INIT
    INIT_FENCE
  }
  __syncthreads();
  if (threadIdx.x >= 128) {
    if (threadIdx.x == 128) {
      sm90::PipelineState state{0, 1};
      for (int tile = 0; tile < tiles; ++tile)
        for (int s = 0; s < k_tiles; ++s, state.next(kStages)) {
          const unsigned full_barrier = pipeline.full_barrier(state.index), to = stages + state.index * 2 * kBytes;
          ACQUIRE
          sm90::mbarrier_arrive_expect_tx(full_barrier, EXPECTED);
          sm90::tma_load_2d(to + LOAD_OFFSET, &a, full_barrier, s * 64, tile * 64);
          sm90::tma_load_2d(to + kBytes, &b, full_barrier, s * 64, 0);
        }
    }
    return;
  }
  sm90::PipelineState state{0, FIRST_PHASE};
  const int thread = threadIdx.x, lane = thread % 32, row = thread / 32 * 16 + lane % 16;
  for (int tile = 0; tile < tiles; ++tile) {
    float d[32];
    for (int s = 0; s < k_tiles; ++s, state.next(kStages)) {
      const unsigned from = stages + state.index * 2 * kBytes;
      WAIT_FULL
      WGMMA_FENCE
      for (int i = 0; i < 4; ++i)
        sm90::wgmma<__half, 64>(d, sm90::matrix_descriptor(from + i * 32, 16, 1024) ^ DESCRIPTOR,
                                sm90::matrix_descriptor(from + kBytes + B_OFFSET + i * 32, 16, 1024), s || i);
      sm90::wgmma_commit_group();
      RELEASE_EARLY
      WGMMA_WAIT
      RELEASE
    }
    sm90::wgmma_wait_group<0>();
    WAIT_READ
    BARRIER_BEFORE
    for (int j = 0; j < 4; ++j) {
      unsigned r[4];
      for (int e = 0; e < 4; ++e) {
        const __half2 pair = __floats2half2_rn(d[8 * j + 2 * e], d[8 * j + 2 * e + 1]);
        r[e] = *reinterpret_cast<const unsigned*>(&pair);
      }
      sm90::stmatrix_x4(staging + row * 128 + ((j * 2 + lane / 16 ^ (row & 7)) << 4), r);
    }
    PROXY_FENCE
    BARRIER_AFTER
    if (thread == 0) STORE
  }
  LAST_WAIT
}
"""
RIGHT = {
    "INIT": "pipeline.init(1, 1);",
    "INIT_FENCE": "sm90::fence_mbarrier_init();",
    "ACQUIRE": "pipeline.producer_acquire(state);",
    "EXPECTED": "2 * kBytes",
    "LOAD_OFFSET": "0",
    "FIRST_PHASE": "0",
    "WAIT_FULL": "pipeline.consumer_wait(state);",
    "WGMMA_FENCE": "sm90::wgmma_fence();",
    "DESCRIPTOR": "0ull",
    "B_OFFSET": "0",
    "RELEASE_EARLY": "",
    "WGMMA_WAIT": "sm90::wgmma_wait_group<0>();",
    "RELEASE": "if (thread == 0) pipeline.consumer_release(state.index);",
    "WAIT_READ": "if (thread == 0) sm90::tma_store_wait_read<0>();",
    "BARRIER_BEFORE": "sm90::named_barrier_sync(1, 128);",
    "PROXY_FENCE": "sm90::fence_proxy_async();",
    "BARRIER_AFTER": "sm90::named_barrier_sync(1, 128);",
    "STORE": "sm90::tma_store_2d(&c, staging, 0, tile * 64);",
    "LAST_WAIT": "if (thread == 0) sm90::tma_store_wait_read<0>();",
}
RELEASES, BARRIER = RIGHT["RELEASE"], RIGHT["BARRIER_AFTER"]
# The lines that differ, the kinds of finding that the bug may have, depending on the order, and what one says.
BUGS = {
    "no wait for the load": ({"WAIT_FULL": ""}, cuda.DataRace, "asynchronous copy"),
    "the consumer's first phase is wrong": ({"FIRST_PHASE": "1"}, (cuda.DataRace, cuda.Deadlock), ""),
    "too few bytes expected": ({"EXPECTED": "kBytes"}, (cuda.DataRace, cuda.Deadlock), ""),
    "too many bytes expected": ({"EXPECTED": "3 * kBytes"}, cuda.Deadlock, "8192 bytes more of bulk copies"),
    "no wait for a free stage": ({"ACQUIRE": ""}, (cuda.DataRace, cuda.UndefinedBehaviour), ""),
    "no release of a stage": ({"RELEASE": ""}, cuda.Deadlock, "expects 1 of 1 arrivals"),
    "a release before the wait for wgmma": (
        {"RELEASE_EARLY": RELEASES, "RELEASE": ""},
        cuda.DataRace,
        "asynchronous copy and read",
    ),
    "a release by every warp": (
        {"RELEASE": "if (lane == 0) pipeline.consumer_release(state.index);"},
        cuda.UndefinedBehaviour,
        "arrivals in a phase that expects only",
    ),
    "more consumers than arrive": ({"INIT": "pipeline.init(1, 4);"}, cuda.Deadlock, "expects 3 of 4 arrivals"),
    "barriers are not initialised": ({"INIT": ""}, cuda.UninitializedRead, "barrier"),
    "no fence after the initialisation": ({"INIT_FENCE": ""}, cuda.UndefinedBehaviour, "fence.mbarrier_init"),
    "no wgmma fence": ({"WGMMA_FENCE": ""}, cuda.UndefinedBehaviour, "wgmma before wgmma.fence"),
    "another swizzle in the descriptor": (
        {"DESCRIPTOR": "3ull << 62"},
        cuda.UndefinedBehaviour,
        "a swizzle of 64 bytes, the tensor map of the bulk copy that loaded the operand one of 128",
    ),
    "no wait for wgmma": ({"WGMMA_WAIT": ""}, cuda.DataRace, "asynchronous copy and read"),
    "the operand of the other matrix's stage": ({"B_OFFSET": "kBytes"}, cuda.KernelError, ""),
    "a box that is not aligned": ({"LOAD_OFFSET": "64"}, cuda.UndefinedBehaviour, "is not a multiple of 128"),
    "a box past the shared memory": ({"LOAD_OFFSET": "8 * kBytes"}, cuda.OutOfBounds, "dynamic shared"),
    "no wait for the store before": ({"WAIT_READ": ""}, cuda.DataRace, "write and read"),
    "no barrier after the wait for the store": ({"BARRIER_BEFORE": ""}, cuda.DataRace, "write and read"),
    "no proxy fence": ({"PROXY_FENCE": ""}, cuda.DataRace, "without a fence.proxy.async"),
    "the proxy fence after the barrier, in other threads": (
        {"PROXY_FENCE": "", "BARRIER_AFTER": f"{BARRIER} if (thread > 0) sm90::fence_proxy_async();"},
        cuda.DataRace,
        "without a fence.proxy.async",
    ),
    "no barrier before the store": ({"BARRIER_AFTER": ""}, cuda.DataRace, ""),
    "a store by every thread of a warp": (
        {
            "STORE": "",
            "BARRIER_AFTER": f"{BARRIER} if (thread < 2) sm90::tma_store_2d(&c, staging, 0, tile * 64 + thread);",
        },
        cuda.KernelError,
        "",
    ),
    "no wait before the exit": ({"LAST_WAIT": ""}, cuda.UndefinedBehaviour, "exits while its bulk copies"),
    "no commit of the store": (
        {
            "STORE": 'asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" '
            ':: "l"(&c), "r"(staging), "r"(0), "r"(tile * 64) : "memory");'
        },
        cuda.KernelError,
        "",
    ),
}  # fmt: skip


VALUES = ("EXPECTED", "LOAD_OFFSET", "FIRST_PHASE", "DESCRIPTOR", "B_OFFSET")  # the others are statements


def source() -> str:
    text = SOURCE
    for name, right in RIGHT.items():
        line = f"({right})" if name in VALUES else f"{{ {right} }}"
        for number, (changes, _, _) in enumerate(BUGS.values(), 1):
            if name in changes and name in VALUES:
                line = f"(bug == {number} ? ({changes[name]}) : {line})"
            elif name in changes:
                line = f"if (bug == {number}) {{ {changes[name]} }} else {line}"
        text = re.sub(rf"\b{name}\b", lambda _, line=line: line, text)
    return text


def run(bug: str | None, order: str) -> list[cuda.Finding]:
    torch.manual_seed(0)
    tiles, k_tiles = 2, 4
    a, b, c = torch.randn(tiles * 64, k_tiles * 64), torch.randn(64, k_tiles * 64), torch.zeros(tiles * 64, 64)
    a, b, c = a.half(), b.half(), c.half()
    maps = [cuda.tensor_map(each, (64, 64)) for each in (a, b, c)]
    number = 1 + list(BUGS).index(bug) if bug else 0
    found = cuda.load(source())["gemm"][1, 160, 5 * 8192 + 32].check(*maps, tiles, k_tiles, number, order=order)
    if not found:
        torch.testing.assert_close(c.double(), a.double() @ b.double().t(), atol=0.02, rtol=0.002)
    return found


@pytest.mark.parametrize("order", ["forward", "reverse", "shuffle"])
def test_the_correct_kernel_has_no_finding(order):
    assert run(None, order) == []


@pytest.mark.parametrize("bug", BUGS)
def test_each_bug_is_found(bug):
    _, kind, message = BUGS[bug]
    for order in ("forward", "reverse"):
        found = run(bug, order)
        assert found, f"{bug}: nothing found"
        assert any(issubclass(each.kind, kind) and message in str(each) for each in found), "\n".join(map(str, found))
