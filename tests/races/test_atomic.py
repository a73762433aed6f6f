"""cuda::atomic_ref and cuda::atomic: their results, and what their orders and scopes order."""

from __future__ import annotations

import numpy as np
import pytest

from warpwise import cuda
from warpwise.cuda.errors import DataRace

MODULE = cuda.load("""#include <cuda/atomic>
#include <cuda/barrier>
template <cuda::thread_scope S> __device__ void pass(bool releases, bool acquires, int* data, int* flag) {
  cuda::atomic_ref<int, S> ready(*flag);
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    data[0] = 1;
    ready.store(1, releases ? cuda::memory_order_release : cuda::memory_order_relaxed);
  } else {
    while (ready.load(acquires ? cuda::memory_order_acquire : cuda::memory_order_relaxed) == 0) {}
    data[1] = data[0];
  }
}
__global__ void device(bool releases, bool acquires, int* data, int* flag) {
  pass<cuda::thread_scope_device>(releases, acquires, data, flag);
}
__global__ void block(bool releases, bool acquires, int* data, int* flag) {
  pass<cuda::thread_scope_block>(releases, acquires, data, flag);
}
__global__ void thread(bool releases, bool acquires, int* data, int* flag) {
  pass<cuda::thread_scope_thread>(releases, acquires, data, flag);
}
__global__ void fence_of_scope_thread(int* data, int* flag) {
  cuda::atomic_ref<int, cuda::thread_scope_block> ready(*flag);
  if (threadIdx.x == 0) {
    data[0] = 1;
    cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_thread);
    ready.store(1, cuda::memory_order_relaxed);
  } else if (threadIdx.x == 32) {
    while (ready.load(cuda::memory_order_acquire) == 0) {}
    data[1] = data[0];
  }
}
// The comparison of block 1 fails until it reads the flag, and so has the order of a failure.
__global__ void failed_comparison(bool acquires, int* data, int* flag) {
  cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    data[0] = 1;
    ready.store(1, cuda::memory_order_release);
  } else {
    int expected;
    do {
      expected = 7;
      ready.compare_exchange_strong(expected, 8, acquires ? cuda::memory_order_relaxed : cuda::memory_order_acquire,
                                    acquires ? cuda::memory_order_acquire : cuda::memory_order_relaxed);
    } while (expected != 1);
    data[1] = data[0];
  }
}
__global__ void operators(int* data) {
  __shared__ cuda::atomic<int, cuda::thread_scope_block> count;
  if (threadIdx.x == 0) count = 5;
  __syncthreads();
  count++;
  --count;
  count += 3;
  cuda::atomic_ref<int, cuda::thread_scope_device>(data[1]) |= 1 << threadIdx.x % 4;
  __syncthreads();
  if (threadIdx.x == 0) data[0] = count;
}
__global__ void results(int* sum, int* greatest, int* winners) {
  cuda::atomic_ref<int, cuda::thread_scope_device>(*sum).fetch_add(2);
  cuda::atomic_ref<int, cuda::thread_scope_device>(*greatest).fetch_max(threadIdx.x);
  int expected = 0;
  if (cuda::atomic_ref<int, cuda::thread_scope_device>(winners[0]).compare_exchange_strong(expected, 1))
    atomicAdd(&winners[1], 1);
}
""")


@pytest.mark.whole
@pytest.mark.parametrize("order", ["forward", "reverse"])
@pytest.mark.parametrize("scope", ["device", "block"])
def test_a_flag_needs_release_acquire_and_a_scope_of_both_blocks(scope: str, order: str) -> None:
    for releases in (False, True):
        for acquires in (False, True):
            data, flag = np.zeros(2, "i4"), np.zeros(1, "i4")
            findings = MODULE[scope][2, 32].check(releases, acquires, data, flag, order=order)
            ordered = scope == "device" and releases and acquires
            assert [finding.kind for finding in findings] == ([] if ordered else [DataRace])
            assert data.tolist() == [1, 1]


def test_read_modify_writes() -> None:
    total, greatest, winners = np.zeros(1, "i4"), np.zeros(1, "i4"), np.zeros(2, "i4")
    assert MODULE["results"][2, 64].check(total, greatest, winners) == []
    assert (total[0], greatest[0], winners.tolist()) == (256, 63, [1, 1])


@pytest.mark.parametrize("order", ["forward", "reverse", "preempt"])
def test_the_scope_of_a_thread_orders_no_other_thread(order: str) -> None:
    data, flag = np.zeros(2, "i4"), np.zeros(1, "i4")
    assert DataRace in {f.kind for f in MODULE["thread"][2, 32].check(True, True, data, flag, order=order)}
    data, flag = np.zeros(2, "i4"), np.zeros(1, "i4")
    assert DataRace in {f.kind for f in MODULE["fence_of_scope_thread"][1, 64].check(data, flag, order=order)}


@pytest.mark.parametrize("order", ["forward", "reverse", "preempt"])
@pytest.mark.parametrize("acquires", [False, True])
def test_a_comparison_that_fails_has_its_own_order(acquires: bool, order: str) -> None:
    data, flag = np.zeros(2, "i4"), np.zeros(1, "i4")
    findings = MODULE["failed_comparison"][2, 32].check(acquires, data, flag, order=order)
    assert [finding.kind for finding in findings] == ([] if acquires else [DataRace])


def test_operators() -> None:
    data = np.zeros(2, "i4")
    assert MODULE["operators"][2, 64].check(data) == []
    assert data.tolist() == [197, 15]
