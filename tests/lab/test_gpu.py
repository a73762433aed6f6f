"""The lab on a real GPU: verdicts, times of work whose duration is known, and times that must be rejected."""

from __future__ import annotations

import pytest
import torch
from tests.lab import toys

from warpwise import cuda
from warpwise.lab import ImpossibleTime, Roofline, climb, ratio, time, verify
from warpwise.lab.timing.gpu import Gpu
from warpwise.lab.timing.gpu_timer import GpuTimer
from warpwise.operation import Cost

pytestmark = pytest.mark.gpu

KERNELS = cuda.load(
    """
__global__ void affine(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i] + 1;
}
__global__ void one_too_many(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <= n) y[i] = i < n ? 2 * x[i] + 1 : 0;
}
"""
)
F32 = [torch.float32]


def affine(out, x):
    KERNELS["affine"][-(-len(x) // 256), 256](x, cuda.out(out), len(x))


def one_too_many(out, x):
    KERNELS["one_too_many"][len(x) // 256 + 1, 256](x, cuda.out(out), len(x))


def test_an_honest_kernel_is_right():
    verdict = verify(toys.op(toys.AFFINE, affine, language="cuda"), "affine", device="cuda", dtypes=F32)
    assert verdict.right, str(verdict)
    assert verdict.place == torch.cuda.get_device_name()


def test_a_write_past_the_end_lands_in_the_guard_band():
    verdict = verify(toys.op(toys.AFFINE, one_too_many, language="cuda"), "one_too_many", device="cuda", dtypes=F32)
    assert verdict.failures[0].kind == "guard"


def test_a_spin_of_known_length_takes_that_long():
    """The duration of 20 million cycles is between those at the highest and at the lowest clock allowed for samples."""
    cycles = 20_000_000
    timing = time(torch.cuda._sleep, cycles, device="cuda", budget_s=2)
    assert timing.clock is not None
    shortest = cycles / (timing.clock.highest * 1e6)
    assert 0.99 * shortest < timing.median < shortest / 0.75
    assert timing.clock.highest * 1.02 >= timing.clock.median


def test_launch_overhead_is_not_in_a_short_kernel():
    x = torch.randn(32, device="cuda")
    timing = time(lambda: x.add_(1), device="cuda", budget_s=1)
    assert not timing.exposed
    assert timing.median < 20e-6


def test_a_function_that_waits_is_marked():
    x = torch.randn(32, device="cuda")
    assert time(lambda: x.sum().item(), device="cuda", budget_s=1).exposed


def test_the_flush_makes_a_cached_read_cold():
    """A quarter of the L2 cache, read again and again: from memory, not from the cache."""
    gpu = Gpu(torch.device("cuda", torch.cuda.current_device()))
    x = torch.randn(gpu.l2_bytes // 16, device="cuda")
    timer = GpuTimer(gpu)

    def read() -> torch.Tensor:
        return x.sum()

    timer.prepare(read)
    flush, seconds = gpu.flush, dict[bool, list[float]]({True: [], False: []})
    for _ in range(60):  # in turn: other tests use the GPU at the same time
        for flushes, times in seconds.items():
            gpu.flush = flush if flushes else lambda: None  # type: ignore[method-assign]
            times.append(timer.sample(read).seconds)
    assert min(seconds[True]) > min(seconds[False])


def test_twice_the_work_takes_twice_as_long():
    x, y = torch.randn(1 << 26, device="cuda"), torch.randn(1 << 27, device="cuda")
    found = time({"one": lambda: x.clone(), "two": lambda: y.clone()}, device="cuda", budget_s=3)
    assert ratio(found["two"], found["one"]).median == pytest.approx(2.0, rel=0.05)


def test_work_that_was_not_done_is_impossible():
    with pytest.raises(ImpossibleTime):
        time(lambda: None, device="cuda", cost=Cost(10**12), ceilings=Roofline(peak_bandwidth=5e12), budget_s=1)


def test_a_graph_times_tiny_kernels():
    x = torch.randn(32, device="cuda")
    timing = time(lambda: x.add_(1), device="cuda", mode="graph", budget_s=1)
    assert timing.median < 10e-6


def test_a_ladder_is_climbed():
    op = toys.op(toys.AFFINE, affine, language="cuda", dtypes=(torch.float32,))
    ladder = climb(op, device="cuda", dtypes=F32, budget_s=5)
    assert ladder.right
    point = ladder.points[0]
    assert {entry.name for entry in point.entries} == {"affine", "torch", "torch.compile"}
    assert point.entry("affine").timing.floor > 0
    assert point.entry("affine").ratio is not None
    assert ladder.environment["driver"]
