"""``schedules``: defects that only rare schedules show, found by a seed that shows them again."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from warpwise import cuda

SOURCE = """
#define LEADER (threadIdx.x == 0)
__device__ int total;
// Another block may take a ticket between the first ticket and the write.
__global__ void counter_cleared(int* data, int* flag) {
  if (!LEADER) return;
  if (atomicAdd(flag, 1) == 0) *(volatile int*)flag = 0;
}
// The data is read before it is written only if the reader's block runs in between.
__global__ void flag_before_data(int* data, int* flag) {
  if (!LEADER) return;
  if (blockIdx.x == 0) {
    atomicExch(flag, 1);
    __threadfence();
    data[0] = 1;
    __threadfence();
    atomicExch(flag, 2);
  } else if (atomicAdd(flag, 0) == 1) {
    __threadfence();
    data[1] = data[0];
  }
}
// Two blocks may read the same value before either adds to it.
__global__ void lost_update(int* data, int* flag) {
  if (!LEADER) return;
  const int seen = atomicAdd(data, 0);
  atomicExch(data, seen + 1);
  if (atomicAdd(flag, 1) == gridDim.x - 1) assert(atomicAdd(data, 0) == gridDim.x);
}
__global__ void atomic_update(int* data, int* flag) {
  if (!LEADER) return;
  atomicAdd(data, 1);
  __threadfence();
  if (atomicAdd(flag, 1) == gridDim.x - 1) assert(atomicAdd(data, 0) == gridDim.x);
}
__global__ void variable(int* data, int* flag) {
  if (LEADER && atomicAdd(&total, 1) == gridDim.x - 1) assert(total == gridDim.x);
}
"""
MODULE = cuda.load(SOURCE)


@pytest.mark.parametrize("name", ["counter_cleared", "flag_before_data", "lost_update"])
def test_a_rare_schedule_is_found_and_repeated_by_its_seed(name: str) -> None:
    def arguments() -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(8, "i4"), np.zeros(8, "i4")

    launch = MODULE[name][4, 32]
    assert launch.check(*arguments()) == []
    found = launch.check(*arguments(), schedules=32)
    assert found and all(finding.schedule.startswith('order="preempt", seed=') for finding in found)
    assert "schedule: " in str(found[0])
    seed = int(found[0].schedule.rpartition("=")[2])
    again = launch.check(*arguments(), order="preempt", seed=seed)
    assert [finding.message for finding in again] == [finding.message for finding in found]


@pytest.mark.parametrize("name", ["atomic_update", "variable"])
def test_each_schedule_begins_with_the_same_values(name: str) -> None:
    data, flag = torch.zeros(8, dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    assert MODULE[name][4, 32].check(data, flag, schedules=16) == []
    assert data[0] == (4 if name == "atomic_update" else 0)
