"""Kernels keep denormals, as a GPU does by default, if the host process flushes them."""

from __future__ import annotations

import pytest
import torch

import warpwise as ww

HALVE = "__global__ void halve(const float* x, float* y) { y[threadIdx.x] = 0.5f * x[threadIdx.x]; }"


@pytest.fixture
def flushing():
    if not torch.set_flush_denormal(True):
        pytest.skip("the CPU cannot flush denormals")
    yield
    torch.set_flush_denormal(False)


def test_denormals_are_kept_with_host_flush_denormal(flushing):
    x = torch.full((32,), 2.0**-126)
    y = torch.zeros(32)
    launcher = ww.cuda.load(HALVE)["halve"][1, 32]
    launcher(x, ww.cuda.out(y))
    assert torch.equal(y.view(torch.int32), torch.full((32,), 2**22, dtype=torch.int32)), "2^-127"
    assert ww.explain(launcher, x, ww.cuda.out(y)).agrees
    assert torch.tensor(2.0**-126).mul(0.5).item() == 0.0, "the host must still flush denormals"
