"""Launches on a GPU; and the packing of parameters, which does not need one."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import warpwise as ww
from warpwise.cuda.errors import ArgumentError, LaunchError
from warpwise.cuda.gpu.prepared import Parameters

SOURCE = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
struct Affine { float scale; double shift; };
__constant__ float weights[3];

__global__ void add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
template <class T> __global__ void fill(T* out, T value, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = value;
}
__global__ void affine(double* out, signed char pad, Affine map, bool twice, float4 v) {
    out[0] = (twice ? 2 : 1) * (map.scale * 10 + map.shift) + pad + v.w;
}
__global__ void reversed(float* x) {
    extern __shared__ float tile[];
    for (int i = threadIdx.x; i < SIZE; i += blockDim.x) tile[i] = x[i];
    __syncthreads();
    for (int i = threadIdx.x; i < SIZE; i += blockDim.x) x[i] = tile[SIZE - 1 - i];
}
__global__ void weighted(float* x) { x[threadIdx.x] = weights[threadIdx.x]; }
__global__ void weighted_twice(float* x) { x[threadIdx.x] = 2 * weights[threadIdx.x]; }
__global__ void astray(float* x) { x[1ll << 40] = 1; }
__global__ void __launch_bounds__(64) small(float* x) { x[threadIdx.x] = 1; }
"""
SIZE = 20_000


@pytest.fixture(scope="module")
def module() -> ww.cuda.Module:
    return ww.cuda.load(SOURCE, define={"SIZE": SIZE})


def read(parameters: Parameters, index: int, size: int) -> bytes:
    table = ctypes.cast(parameters.address, ctypes.POINTER(ctypes.c_void_p))
    return ctypes.string_at(table[index], size)


def test_parameters_are_packed_at_the_kernels_offsets() -> None:
    codes, offsets, sizes = ["b", "P", "8s", "e", "d"], [0, 8, 16, 24, 32], [1, 8, 8, 2, 8]
    parameters = Parameters(codes, offsets, sizes)
    for turn in (1, 2):
        parameters.fill([-turn, 2**40 * turn, struct.pack("=ii", turn, 3), 1.5 * turn, 2.5])
        assert read(parameters, 0, 1) == struct.pack("=b", -turn)
        assert read(parameters, 1, 8) == struct.pack("=Q", 2**40 * turn)
        assert read(parameters, 2, 8) == struct.pack("=ii", turn, 3)
        assert read(parameters, 3, 2) == struct.pack("=e", 1.5 * turn)
        assert read(parameters, 4, 8) == struct.pack("=d", 2.5)


def test_a_kernel_without_parameters_packs_nothing() -> None:
    parameters = Parameters([], [], [])
    parameters.fill([])
    assert parameters.address != 0


def test_a_parameter_of_a_different_size_raises() -> None:
    with pytest.raises(ValueError, match="a parameter of 8 bytes cannot be packed as 'i'"):
        Parameters(["i"], [0], [8])


@pytest.mark.gpu
def test_a_kernel_adds_on_the_current_stream(module: ww.cuda.Module) -> None:
    a, b = torch.randn(2, 1000, device="cuda")
    c = torch.zeros(1000, device="cuda")
    module["add"][4, 256](b, b, c, 1000)  # compile and load before the sleep below
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        module["add"][4, 256](a, b, ww.cuda.out(c), 1000)
        assert not stream.query()
    stream.synchronize()
    assert torch.equal(c, a + b)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "dtype, value",
    [
        (torch.float32, 0.1),
        (torch.float64, 0.1),
        (torch.float16, 0.1),
        (torch.bfloat16, 0.1),
        (torch.int32, -7),
        (torch.int64, 2**40),
        (torch.uint8, 255),
        (torch.bool, True),
    ],
)
def test_values_are_packed_by_their_declared_type(module: ww.cuda.Module, dtype: torch.dtype, value: Any) -> None:
    out = torch.zeros(70, dtype=dtype, device="cuda")
    module[f"fill<{ww.cuda.ctype(dtype)}>"][3, 32](out, value, 70)
    assert torch.equal(out, torch.full_like(out, value))


@pytest.mark.gpu
def test_structures_and_vectors_by_value(module: ww.cuda.Module) -> None:
    class Affine(ctypes.Structure):
        _fields_ = (("scale", ctypes.c_float), ("shift", ctypes.c_double))

    out = torch.zeros(1, dtype=torch.float64, device="cuda")
    module["affine"][1, 1](out, -3, Affine(2.0, 5.0), True, (0, 0, 0, 0.5))
    assert out.item() == 2 * (20 + 5) - 3 + 0.5


@pytest.mark.gpu
def test_large_dynamic_shared_memory_needs_no_explicit_opt_in(module: ww.cuda.Module) -> None:
    x = torch.arange(SIZE, dtype=torch.float32, device="cuda")
    module["reversed"][1, 512, 4 * SIZE](x)
    assert torch.equal(x, torch.arange(SIZE - 1, -1, -1, dtype=torch.float32, device="cuda"))


@pytest.mark.gpu
def test_constants_apply_to_kernels_compiled_later() -> None:
    module = ww.cuda.load(SOURCE, define={"SIZE": SIZE})
    x = torch.zeros(3, device="cuda")
    module["weighted"][1, 3](x)
    assert x.tolist() == [0, 0, 0]
    module.set_constant("weights", torch.tensor([1.0, 2.0, 3.0]))
    module["weighted"][1, 3](x)
    assert x.tolist() == [1, 2, 3]
    module["weighted_twice"][1, 3](x)
    assert x.tolist() == [2, 4, 6]
    module.set_constant("weights", torch.tensor([4.0, 5.0, 6.0], device="cuda"))
    module["weighted_twice"][1, 3](x)
    assert x.tolist() == [8, 10, 12]
    module.set_constant("weights", torch.zeros(4))
    with pytest.raises(ArgumentError, match="weights has 12 bytes, got 16"):
        module["weighted"][1, 3](x)


@pytest.mark.gpu
def test_invalid_arguments_raise_before_the_launch(module: ww.cuda.Module) -> None:
    a = torch.zeros(8, device="cuda")
    add = module["add"][1, 8]
    with pytest.raises(ArgumentError, match="takes 4 arguments .*got 3"):
        add(a, a, a)
    with pytest.raises(ArgumentError, match="declared const float\\*, got a float64 tensor"):
        add(a.double(), a, a, 8)
    with pytest.raises(ArgumentError, match="argument 0 is on cuda:0 but argument 1 is on cpu"):
        add(a, a.cpu(), a, 8)
    with pytest.raises(ArgumentError, match="argument 0 is on cuda:0 but argument 1 is on cpu"):
        add(a, a.cpu().numpy(), a, 8)
    with pytest.raises(ArgumentError, match="expected a CUDA tensor"):
        add(a, torch.tensor(1.0), a, 8)
    with pytest.raises(ArgumentError, match="not contiguous"):
        add(torch.zeros(8, 2, device="cuda")[:, 0], a, a, 8)
    with pytest.raises(ArgumentError, match="got float 8.0; a float is never cut"):
        add(a, a, a, 8.0)
    with pytest.raises(ArgumentError, match="it does not fit: int holds"):
        add(a, a, a, 2**31)


@pytest.mark.gpu
def test_launches_beyond_the_device_limits_raise(module: ww.cuda.Module) -> None:
    x = torch.zeros(2048, device="cuda")
    with pytest.raises(LaunchError, match="is the problem size 0"):
        module["add"][0, 32](x, x, x, 0)
    with pytest.raises(LaunchError, match=r"allows 1,024"):
        module["add"][1, 2048](x, x, x, 0)
    with pytest.raises(LaunchError, match=r"__launch_bounds__\(64\)"):
        module["small"][1, 128](x)
    with pytest.raises(LaunchError, match="bytes of dynamic shared memory"):
        module["add"][1, 32, 1 << 20](x, x, x, 0)


@pytest.mark.gpu
def test_a_graph_captures_launches(module: ww.cuda.Module) -> None:
    a, b, c = (torch.zeros(64, device="cuda") for _ in range(3))
    kernel = module["add"][2, 32]
    kernel(a, b, c, 64)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(a, b, c, 64)
    a.fill_(3)
    b.fill_(4)
    graph.replay()
    assert c.unique().tolist() == [7]


@pytest.mark.gpu
def test_launches_from_several_threads(module: ww.cuda.Module) -> None:
    outs = [torch.zeros(256, dtype=torch.int32, device="cuda") for _ in range(8)]

    def work(number: int) -> None:
        for _ in range(50):
            module["fill<int>"][1, 256](outs[number], number, 256)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    assert [out.unique().tolist() for out in outs] == [[number] for number in range(8)]


@pytest.mark.gpu
def test_check_runs_on_the_emulator_on_copies(module: ww.cuda.Module) -> None:
    storage = torch.ones(20, device="cuda")
    a, c = storage[:8], torch.zeros(8, device="cuda")
    assert module["add"][1, 8].check(a, storage[8:16], c, 8) == []
    assert c.sum() == 0
    found = module["add"][1, 32].check(a, storage[8:16], c, 32)
    assert {finding.kind for finding in found} == {ww.cuda.OutOfBounds}


@pytest.mark.gpu
def test_the_cuda_array_interface_is_accepted(module: ww.cuda.Module) -> None:
    class Foreign:
        def __init__(self, tensor: torch.Tensor) -> None:
            self.__cuda_array_interface__ = tensor.__cuda_array_interface__

    a = torch.ones(8, device="cuda")
    c = torch.zeros(8, device="cuda")
    module["add"][1, 8](Foreign(a), Foreign(a), Foreign(c), 8)
    assert c.tolist() == [2] * 8
    with pytest.raises(ArgumentError, match="expected float32"):
        module["add"][1, 8](Foreign(a.double()), a, c, 8)


ASTRAY = """
import torch, warpwise as ww
module = ww.cuda.load("__global__ void astray(float* x) { x[1ll << 40] = 1; }")
x = torch.zeros(4, device="cuda")
try:
    module["astray"][1, 1](x)
    torch.cuda.synchronize()
except ww.cuda.LaunchError as error:
    print("LaunchError", error)
except Exception as error:
    print("later", type(error).__name__)
try:
    module["astray"][1, 1](x)
except ww.cuda.LaunchError as error:
    print("then", error)
"""


def _python(code: str, **environment: str) -> str:
    path = os.pathsep.join(filter(None, [str(Path(ww.__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    finished = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return finished.stdout + finished.stderr


@pytest.mark.gpu
def test_a_failed_kernel_raises_at_the_call_with_synchronous_launches() -> None:
    assert "LaunchError astray: running it failed with CUDA_ERROR_ILLEGAL_ADDRESS" in _python(ASTRAY, WARPWISE_SYNC="1")


@pytest.mark.gpu
def test_a_failed_kernel_raises_at_a_later_launch_by_default() -> None:
    said = _python(ASTRAY, WARPWISE_SYNC="0")
    assert "later" in said
    assert "an earlier launch, since kernels run asynchronously. WARPWISE_SYNC=1 raises at the call" in said


SECOND = """
import time, torch, warpwise as ww
x = torch.zeros(64, device="cuda")
torch.cuda.synchronize()
import warpwise.cuda
start = time.perf_counter()
module = ww.cuda.load("__global__ void k(float* x) { x[threadIdx.x] = 3; }")
module["k"][1, 64](x)
torch.cuda.synchronize()
print(x.sum().item(), round(1e3 * (time.perf_counter() - start)), "ms")
"""


@pytest.mark.gpu
def test_a_second_process_loads_the_kernel_from_the_cache(tmp_path: Path) -> None:
    first = _python(SECOND, WARPWISE_CACHE=str(tmp_path))
    entries = {path: path.stat().st_mtime_ns for path in (tmp_path / "cubin").iterdir()}
    second = _python(SECOND, WARPWISE_CACHE=str(tmp_path))
    assert first.startswith("192.0"), first
    assert second.startswith("192.0"), second
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cubin").iterdir()} == entries
    print("first and second process:", first.strip(), second.strip())


@pytest.mark.gpu
def test_emulator_and_gpu_results_agree(module: ww.cuda.Module) -> None:
    a, b = torch.randn(2, 77)
    emulated, launched = torch.zeros(77), torch.zeros(77, device="cuda")
    module["add"][3, 32](a, b, emulated, 77)
    module["add"][3, 32](a.cuda(), b.cuda(), launched, 77)
    assert torch.equal(emulated, launched.cpu())


@pytest.mark.gpu
def test_a_warm_launch_costs_microseconds(
    module: ww.cuda.Module, record_property: Callable[[str, object], None]
) -> None:
    """Records the time as a property of the test; tests do not assert times."""
    a = torch.zeros(8, device="cuda")
    kernel = module["add"][1, 8]
    kernel(a, a, a, 8)
    start = time.perf_counter()
    for _ in range(500):
        kernel(a, a, a, 8)
    record_property("microseconds a launch", 1e6 * (time.perf_counter() - start) / 500)
    torch.cuda.synchronize()
    assert a.sum() == 0
