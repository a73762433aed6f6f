"""cuda::atomic_ref and cuda::atomic: their results, and what their orders and scopes order."""

from __future__ import annotations

import numpy as np
import pytest

from warpwise import cuda
from warpwise.cuda.errors import DataRace

MODULE = cuda.load("""#include <cuda/atomic>
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
