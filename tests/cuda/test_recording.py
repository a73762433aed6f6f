"""Recording of launches and their replay with other tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import warpwise as ww
from warpwise.cuda.gpu.recording import record

SOURCE = """
__global__ void scaled(const float* x, float* y, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = factor * x[i];
}
__constant__ float offset;
__global__ void moved(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + offset;
}
__global__ void from_address(unsigned long long x, float* y) { y[threadIdx.x] = ((float*)x)[threadIdx.x]; }
"""
N = 1000


@pytest.fixture(scope="module")
def module() -> ww.cuda.Module:
    return ww.cuda.load(SOURCE)


def vectors(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(N, device="cuda", generator=generator), torch.zeros(N, device="cuda")


def scaled(module: ww.cuda.Module, x: torch.Tensor, y: torch.Tensor) -> Any:
    return module["scaled"][4, 256](x, ww.cuda.out(y), 3.0, N)


class Launcher:
    """A stub of Triton's launcher."""

    global_scratch_size = 0

    def __init__(self, calls: list[Any]) -> None:
        self.launch = lambda *args: calls.append(args)

    def __call__(self, x: int, y: int, z: int, stream: int, function: str, *args: Any) -> None:
        self.launch(x, y, z, stream, function, "room" if self.global_scratch_size else None, *args)


class Compiled:
    """A stub of a kernel compiled by Triton."""

    function, packed_metadata = "function", "metadata"

    def __init__(self, calls: list[Any], run: Any) -> None:
        self._calls, self.run = calls, run

    def __getitem__(self, grid: Any) -> Any:
        return lambda *values, stream: self._calls.append((grid, stream, *values))


def test_a_triton_launch_runs_installed_hooks(monkeypatch):
    """Without hooks, a launch skips them and their metadata and calls the launcher or the launcher's C function."""
    from triton import knobs

    from warpwise.triton.compat import direct_launcher

    calls: list[Any] = []
    plain, in_c = lambda *args: calls.append(args), Launcher(calls)
    allocating = Launcher(calls)
    allocating.global_scratch_size = 1
    end = ("metadata", None, None, None, 1.5, None)
    for run, expected in (
        (plain, (2, 3, 1, 7, "function", *end)),
        (in_c, (2, 3, 1, 7, "function", None, *end)),
        (allocating, (2, 3, 1, 7, "function", "room", *end)),
    ):
        launch = direct_launcher(Compiled(calls, run), (2, 3, 1), [2.5, None])
        assert calls == []
        launch(7, [1.5, None])
        assert calls == [expected]
        with monkeypatch.context() as patch:
            patch.setattr(knobs.runtime.launch_enter_hook, "calls", [print])
            launch(7, [1.5, None])
        assert calls.pop() == ((2, 3, 1), 7, 1.5, None)
        calls.clear()


@pytest.mark.gpu
def test_replay_with_other_tensors_on_another_stream(module):
    x, y = vectors(0)
    recording = record(lambda: scaled(module, x, y), [x, y])
    assert recording is not None
    assert len(recording) == 1
    assert torch.equal(y, 3 * x), "recording is a launch too"
    for seed in (1, 2):
        x, y = vectors(seed)
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            recording([x.data_ptr(), y.data_ptr()])
        stream.synchronize()
        assert torch.equal(y, 3 * x)


@pytest.mark.gpu
def test_replay_of_several_kernels_on_views(module):
    def launch(x: torch.Tensor, y: torch.Tensor) -> None:
        module["scaled"][1, 256](x[:100], y[:100], 2.0, 100)
        module["scaled"][4, 256](x[100:], y[100:], 5.0, N - 100)

    x, y = vectors(0)
    recording = record(lambda: launch(x, y), [x, y])
    assert recording is not None
    assert len(recording) == 2
    x, y = vectors(1)
    recording([x.data_ptr(), y.data_ptr()])
    assert torch.equal(y, torch.cat([2 * x[:100], 5 * x[100:]]))


@pytest.mark.gpu
def test_replay_under_cuda_graph_capture(module):
    x, y = vectors(0)
    recording = record(lambda: scaled(module, x, y), [x, y])
    y.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recording([x.data_ptr(), y.data_ptr()])
    assert not y.any()
    graph.replay()
    assert torch.equal(y, 3 * x)


@pytest.mark.gpu
def test_launches_that_cannot_be_replayed_still_run(module):
    set_up = ww.cuda.load(SOURCE)
    set_up.set_constant("offset", np.float32(1.5))

    def fills(x: torch.Tensor, y: torch.Tensor) -> None:
        y.zero_()
        scaled(module, x, y)

    def copies(x: torch.Tensor, y: torch.Tensor) -> None:
        scaled(module, x.clone(), y)

    def own(x: torch.Tensor, y: torch.Tensor) -> None:
        scaled(module, other, y)

    def by_address(x: torch.Tensor, y: torch.Tensor) -> None:
        module["from_address"][1, 256](x.data_ptr(), y)

    def nothing(x: torch.Tensor, y: torch.Tensor) -> None:
        pass

    other = vectors(3)[0]
    for launch in (fills, copies, own, by_address, nothing):
        x, y = vectors(0)
        assert record(lambda launch=launch, x=x, y=y: launch(x, y), [x, y]) is None, launch.__name__
        assert y.any() or launch is nothing, launch.__name__
    x, y = vectors(0)
    assert record(lambda: set_up["moved"][4, 256](x, y, N), [x, y]) is None, "constants may change"
    assert torch.equal(y, x + 1.5)


@pytest.mark.gpu
def test_replay_allocates_the_launchers_temporaries(module):
    def launch(x: torch.Tensor, y: torch.Tensor) -> None:
        doubled = x.new_empty(N)
        x.new_empty((0, N))  # a part that these arguments do not have
        module["scaled"][4, 256](x, doubled, 2.0, N)
        module["scaled"][4, 256](doubled, y, 2.0, N)

    x, y = vectors(0)
    recording = record(lambda: launch(x, y), [x, y])
    assert recording is not None
    x, y = vectors(1)
    used = torch.cuda.memory_allocated()
    for _ in range(3):
        recording([x.data_ptr(), y.data_ptr()])
    assert torch.equal(y, 4 * x)
    assert torch.cuda.memory_allocated() == used


@pytest.mark.gpu
def test_tensors_that_share_memory_are_not_replayed(module):
    both = torch.randn(2 * N, device="cuda")
    x, y = both[:N], both[N:]
    assert record(lambda: module["scaled"][4, 256](x, y, 2.0, N), [x, y]) is None
    assert torch.equal(y, 2 * x)
