"""Bulk stores of kernels without mbarriers: the writes of their source need a proxy fence as well."""

from __future__ import annotations

import pytest
import torch

from warpwise import cuda

BYTES = r"""
extern "C" __global__ void store(int* to, int fenced) {
  __shared__ alignas(128) int values[64];
  for (int i = 0; i < 20; i++) {
    values[threadIdx.x] = i;
    if (fenced > i) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 256;"
                   :: "l"(to), "r"((unsigned)__cvta_generic_to_shared(values)) : "memory");
      asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
    }
    __syncthreads();
  }
}
"""


@pytest.mark.parametrize("fenced, expected", [(20, []), (0, [cuda.DataRace]), (1, [cuda.DataRace])])
def test_stores_without_an_mbarrier_need_a_proxy_fence(fenced: int, expected: list[type]) -> None:
    to = torch.zeros(64, dtype=torch.int32)
    findings = cuda.load(BYTES)["store"][1, 64].check(to, fenced)
    assert [finding.kind for finding in findings] == expected
    assert all("without a fence.proxy.async" in str(finding) for finding in findings)
    assert to.eq(19).all()
