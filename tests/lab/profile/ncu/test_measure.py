"""Launches are saved, loaded by another process and measured there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.lab.profile.ncu.fake_ncu import FakeNcu

from warpwise import cuda
from warpwise.lab.errors import MeasurementError
from warpwise.lab.profile.ncu import NcuError, captured, child, collect, measure
from warpwise.lab.profile.ncu.measure import described, restored

SOURCE = """
__constant__ float factor;
template <class T> __global__ void scale(const T* x, T* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = factor * x[i];
}
__global__ void add_one(float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += 1;
}
"""
LOG = """"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",\
"Device","CC","gpu__time_duration.sum"
"","","","","","","","","","","","ns"
"0","1","python","h","_Z5scaleIfEvPKT_PS0_i","1","7","(64, 1, 1)","(2, 1, 1)","0","9.0","1,984"
"1","1","python","h","_Z7add_onePfi","1","7","(64, 1, 1)","(2, 1, 1)","0","9.0","1,600"
"""


@pytest.fixture
def module() -> cuda.Module:
    made = cuda.load(SOURCE)
    made.set_constant("factor", np.float32(3))
    return made


def twice(module: cuda.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    module["scale<float>"][2, 64](x, cuda.out(y), 100)
    module["add_one"][2, 64](y, 100)


def test_launches_are_captured_in_order_and_made(module: cuda.Module) -> None:
    x, y = torch.ones(100), torch.empty(100)
    with captured() as launches:
        twice(module, x, y)
    assert [launch.expression for launch in launches] == ["scale<float>", "add_one"]
    assert [launch.launcher.grid for launch in launches] == [(2, 1, 1)] * 2
    assert torch.equal(y, torch.full((100,), 4.0))
    launches[1]()
    assert torch.equal(y, torch.full((100,), 5.0))


def test_each_launch_runs_within_what_is_put_around_it(module: cuda.Module) -> None:
    entered = []

    @contextlib.contextmanager
    def around() -> Iterator[None]:
        entered.append("in")
        yield
        entered.append("out")

    with captured(around):
        twice(module, torch.ones(100), torch.empty(100))
    assert entered == ["in", "out"] * 2


def test_a_launch_survives_the_way_to_another_process(module: cuda.Module, tmp_path: Path) -> None:
    base = torch.arange(201, dtype=torch.float32)
    y = torch.zeros(100)
    with captured() as launches:
        module["scale<float>"][2, 64](base[1:101], cuda.out(y), 100)
    torch.save([described(launch) for launch in launches], tmp_path / "launches.pt")
    (data,) = torch.load(tmp_path / "launches.pt", weights_only=False)
    again = restored(data)
    again()
    x, out, n = again.args
    assert x.storage_offset() == 1 and n == 100
    assert torch.equal(out.value, 3 * base[1:101])


def test_numpy_arrays_travel_as_tensors() -> None:
    launch = cuda.load(SOURCE)["add_one"][1, 32]
    with captured() as launches:
        launch(np.zeros(4, np.float32), 4)
    (value, _) = described(launches[0])["args"]
    assert isinstance(value, torch.Tensor) and value.dtype == torch.float32


def test_the_child_launches_everything(module: cuda.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = torch.ones(100), torch.zeros(100)
    with captured() as launches:
        twice(module, x, y)
    path = tmp_path / "launches.pt"
    torch.save([described(launch) for launch in launches], path)
    loaded = torch.load(path, weights_only=False)
    monkeypatch.setattr(child, "_load", lambda path: loaded)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    child.main(path, once=True)
    assert torch.equal(loaded[0]["args"][1].value, torch.full((100,), 4.0))


def test_outputs_that_are_not_shared_get_new_memory() -> None:
    shared, alone = torch.zeros(8), torch.zeros(12)[2:10]
    launches = [{"args": [cuda.out(shared), cuda.out(alone), 8]}, {"args": [shared, 8]}]
    first, second = child.uninitialised(launches)
    assert first["args"][0].value is shared and second["args"][0] is shared
    fresh = first["args"][1].value
    assert fresh.data_ptr() != alone.data_ptr() and fresh.storage_offset() == 2 and fresh.shape == alone.shape


def test_measured_values_come_back_a_launch_each(
    module: cuda.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeNcu(tmp_path)
    fake.plan(LOG)
    monkeypatch.setenv("WARPWISE_NCU", str(fake.path))
    with captured() as launches:
        twice(module, torch.ones(100), torch.empty(100))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    first, second = measure(launches, ["gpu__time_duration.sum"])
    assert first.kernel == "scale<float>" and first.metrics == {"gpu__time_duration.sum": 1984.0}
    assert second.kernel == "add_one" and second.metrics == {"gpu__time_duration.sum": 1600.0}
    assert fake.arguments[-3:-1] == ["-m", "warpwise.lab.profile.ncu.child"]
    with pytest.raises(NcuError, match="measured 2 launches, expected 1"):
        measure(launches[:1])


def test_without_a_gpu_the_error_says_what_is_needed(module: cuda.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(MeasurementError, match="no CUDA device"):
        collect(lambda: twice(module, torch.ones(100), torch.empty(100)))


def test_no_launch_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one launch"):
        collect(lambda: None)
