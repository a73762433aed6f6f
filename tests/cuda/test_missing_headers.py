"""A name of CUDA's C++ libraries without its header: the error names the header."""

from __future__ import annotations

import pytest
import torch

from warpwise import cuda
from warpwise.cuda import CompileError, UnsupportedFeature

MAXIMUM = """
__global__ void maximum(const int* x, int* y) {
  using Reduce = cub::BlockReduce<int, 32>;
  __shared__ typename Reduce::TempStorage storage;
  const int sum = Reduce(storage).Sum(x[threadIdx.x]);
  if (threadIdx.x == 0) *y = sum;
}
"""
COUNT = """
__global__ void count(int* y) {
  cuda::atomic_ref<int, cuda::thread_scope_device> total(*y);
  total.fetch_add(1, cuda::memory_order_relaxed);
}
"""


def test_cub_without_its_header() -> None:
    x, y = torch.arange(32, dtype=torch.int32), torch.empty(1, dtype=torch.int32)
    with pytest.raises(CompileError, match=r"cub is declared in <cub/cub.cuh>, which is not included") as caught:
        cuda.load(MAXIMUM)["maximum"][1, 32](x, cuda.out(y))
    assert not isinstance(caught.value, UnsupportedFeature)
    cuda.load("#include <cub/cub.cuh>\n" + MAXIMUM)["maximum"][1, 32](x, cuda.out(y))
    assert y.item() == x.sum()


def test_an_atomic_without_its_header() -> None:
    y = torch.zeros(1, dtype=torch.int32)
    with pytest.raises(CompileError) as caught:
        cuda.load(COUNT)["count"][1, 32](y)
    assert not isinstance(caught.value, UnsupportedFeature), caught.value
    cuda.load("#include <cuda/atomic>\n" + COUNT)["count"][1, 32](y)
    assert y.item() == 32
