"""Loading sources, selecting kernels and launching them on the emulator."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sampled import examples

import warpwise as ww
from warpwise.cuda.errors import (
    ArgumentError,
    CompileError,
    LaunchError,
    OutOfBounds,
    UninitializedRead,
    UnwrittenOutput,
)
from warpwise.cuda.launch import elements
from warpwise.cuda.source.signature import parse
from warpwise.device import Profile

ADD = """
#include <iostream>
#include <vector>

template <int STEP>
__global__ void axpy(float* y, const float* x, float alpha, int n) {
    for (int i = STEP * (blockIdx.x * blockDim.x + threadIdx.x); i < n; i += STEP * gridDim.x * blockDim.x)
        y[i] += alpha * x[i];
}

__global__ void __launch_bounds__(64) add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

int main() {
    std::vector<float> host(10);
    add<<<1, 32>>>(nullptr, nullptr, nullptr, 0);
    std::cout << host.size() << std::endl;
}
"""


@pytest.fixture(scope="module")
def module() -> ww.cuda.Module:
    return ww.cuda.load(ADD)


# ---- Loading


def test_source_text_and_paths_are_distinguished(tmp_path: Path) -> None:
    file = tmp_path / "add.cu"
    file.write_text(ADD)
    for given_source in (ADD, file, str(file)):
        assert ww.cuda.load(given_source).kernels == ("axpy", "add")
    assert ww.cuda.load(file).file == str(file)
    assert ww.cuda.load("__global__ void k(int* x) {}").kernels == ("k",)


@pytest.mark.parametrize("missing", ["missing.cu", "folder/missing.cuh", "sgemm"])
def test_a_missing_file_raises(missing: str, tmp_path: Path) -> None:
    for path in (missing, tmp_path / missing):
        with pytest.raises(FileNotFoundError, match=r"cuda.load: no file '.*(missing|sgemm).*'"):
            ww.cuda.load(path)


def test_loading_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from warpwise.cuda.emulator import compiler

    monkeypatch.setattr(compiler, "build", None)
    module = ww.cuda.load("this is { no C++ at all")
    assert module.kernels == ()
    assert repr(module) == "Module('kernel.cu': no kernels)"


def test_kernels_are_cached_and_unknown_names_raise(module: ww.cuda.Module) -> None:
    assert module["add"] is module["add"]
    assert "add" in module
    assert "ad" not in module
    with pytest.raises(
        CompileError, match=r"no __global__ function 'ad'; did you mean 'add'\? \(there are: axpy, add\)"
    ):
        module["ad"]
    with pytest.raises(CompileError, match=r"template of <int STEP>: name its arguments, module\['axpy<...>'\]"):
        module["axpy"]
    with pytest.raises(CompileError, match="'add add' is not the name of a kernel"):
        module["add add"]


def test_kernels_of_included_files_are_found(tmp_path: Path) -> None:
    (tmp_path / "inner.cuh").write_text("#pragma once\n__global__ void inner(int* x) { x[0] = VALUE; }\n")
    (tmp_path / "outer.cu").write_text('#include "inner.cuh"\n#include "inner.cuh"\n')
    module = ww.cuda.load(tmp_path / "outer.cu", define={"VALUE": 9})
    assert module.kernels == ("inner",)
    x = torch.zeros(1, dtype=torch.int32)
    module["inner"][1, 1](x)
    assert x.item() == 9


def test_include_folders(tmp_path: Path) -> None:
    (tmp_path / "value.cuh").write_text("#define VALUE 3\n")
    module = ww.cuda.load('#include "value.cuh"\n__global__ void k(int* x) { x[0] = VALUE; }\n', include=[tmp_path])
    x = torch.zeros(1, dtype=torch.int32)
    module["k"][1, 1](x)
    assert x.item() == 3


# ---- Launching


def test_a_kernel_runs_on_tensors_and_arrays(module: ww.cuda.Module) -> None:
    a, b = torch.randn(2, 100)
    c = torch.empty(100)
    module["add"][4, 32](a, b, ww.cuda.out(c), 100)
    assert torch.equal(c, a + b)
    out = np.zeros(100, np.float32)
    module["add"][(4,), (32, 1)](a.numpy(), b, ww.cuda.out(out), np.int64(100))
    assert np.array_equal(out, (a + b).numpy())


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(1, 300), st.integers(1, 5), st.integers(1, 64), st.floats(-4, 4, width=16), st.sampled_from([1, 2]))
def test_template_arguments_and_values(n: int, grid: int, block: int, alpha: float, step: int) -> None:
    x, y = torch.arange(float(n)), torch.ones(n)
    expected = y.clone()
    expected[::step] += alpha * x[::step]
    ww.cuda.load(ADD)[f"axpy<{step}>"][grid, block](y, x, alpha, n)
    assert torch.allclose(y, expected)


def test_equal_launch_shapes_share_a_launcher(module: ww.cuda.Module) -> None:
    kernel = module["add"]
    assert kernel[4, 32] is kernel[4, 32]
    for spelled in ((4, 32), ((4,), [32]), (np.int32(4), torch.Size([32])), (torch.tensor(4), (32, 1, 1), 0)):
        launcher = kernel[spelled]
        assert (launcher.grid, launcher.block, launcher.shared_bytes) == ((4, 1, 1), (32, 1, 1), 0)


def test_a_launch_without_a_shape_raises(module: ww.cuda.Module) -> None:
    kernel = module["add"]
    for wrong in (4, (4,), (1, 2, 3, 4)):
        with pytest.raises(LaunchError, match=r"expected kernel\[grid, block\] or kernel\[grid, block, shared_bytes\]"):
            kernel[wrong]
    with pytest.raises(LaunchError, match=r"expected a grid and a block: kernel\[grid, block\]"):
        kernel(torch.zeros(1))


@pytest.mark.parametrize(
    "shape, message",
    [
        ((0, 32), r"add: grid \(0, 1, 1\): grid.x is 0, it must be at least 1; is the problem size 0\?"),
        ((1, 2048), "block.x is 2,048; sm_90 allows 1,024"),
        ((1, 65), r"has 65 threads, but the kernel is declared __launch_bounds__\(64\)"),
        ((1, 32, 1 << 20), "1,048,576 bytes of dynamic shared memory: sm_90 allows a block 232,448 in all"),
        ((1, 32, -1), "shared_bytes is -1"),
    ],
)
def test_launches_beyond_the_target_limits_raise(module: ww.cuda.Module, shape: Any, message: str) -> None:
    x = torch.zeros(8)
    with pytest.raises(LaunchError, match=message):
        module["add"][shape](x, x, x, 8)


def test_the_target_sets_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "__global__ void k(int* x) { extern __shared__ int s[]; s[0] = 5; x[0] = s[0]; }"
    x = torch.zeros(1, dtype=torch.int32)
    ww.cuda.load(source)["k"][1, 1, 100_000](x)
    assert x.item() == 5
    with pytest.raises(LaunchError, match="sm_75 allows a block 65,536 in all"):
        ww.cuda.load(source, target="sm_75")["k"][1, 1, 100_000](x)
    monkeypatch.setenv("WARPWISE_TARGET", "sm_86")
    with pytest.raises(LaunchError, match="sm_86 allows a block 101,376 in all"):
        ww.cuda.load(source)["k"][1, 1, 110_000](x)
    assert Profile.of("sm_86").shared_per_block_optin == 101_376


def test_too_much_static_shared_memory_raises() -> None:
    source = "__global__ void k(int* x) { __shared__ int s[20000]; s[threadIdx.x] = 5; x[0] = s[0]; }"
    with pytest.raises(LaunchError, match="80,?000"):
        ww.cuda.load(source)["k"][1, 1](torch.zeros(1, dtype=torch.int32))


def test_arguments_are_checked_against_the_compiled_declaration(module: ww.cuda.Module) -> None:
    a = torch.zeros(8)
    add = module["add"][1, 8]
    with pytest.raises(ArgumentError, match=r"add: takes 4 arguments \(.*const float ?\* ?a.*int n\), got 2"):
        add(a, a)
    with pytest.raises(ArgumentError, match=r"argument 2 'c' is declared float ?\*, got a float64 tensor"):
        add(a, a, a.double(), 8)
    with pytest.raises(ArgumentError, match="argument 3 'n' is declared int, got float 8.0"):
        add(a, a, a, 8.0)
    with pytest.raises(ArgumentError, match="argument 0 is on cpu but argument 1 is on meta"):
        add(a, a.to("meta"), a, 8)
    with pytest.raises(ArgumentError, match="a meta tensor has no memory"):
        add(*(a.to("meta") for _ in range(3)), 8)


def test_a_plain_call_raises_and_check_collects(module: ww.cuda.Module) -> None:
    a, c = torch.zeros(20), torch.zeros(40)
    with pytest.raises(OutOfBounds, match="20") as caught:
        module["add"][1, 32](a, a, c, 32)
    assert caught.value.finding is not None
    assert caught.value.finding.variable == "a"
    found = module["add"][1, 32].check(a, a, ww.cuda.out(c), 32)
    assert OutOfBounds in {finding.kind for finding in found}
    assert module["add"][2, 32].check(c, c, torch.zeros(40), 40) == []


def test_an_output_must_be_written_completely(module: ww.cuda.Module) -> None:
    a = torch.zeros(20)
    with pytest.raises(
        UnwrittenOutput, match="^add: 10 of the 20 elements of 'c'"
    ):  # the exception's type gives the kind
        module["add"][1, 10](a, a, ww.cuda.out(torch.zeros(20)), 20)


def test_overlapping_views_alias(module: ww.cuda.Module) -> None:
    values = torch.arange(12.0)
    module["add"][1, 8](values[:8], values[:8], values[:8], 8)
    assert values.tolist() == [0, 2, 4, 6, 8, 10, 12, 14, 8, 9, 10, 11]


def test_checks_come_from_the_argument_or_the_environment(
    module: ww.cuda.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, c = torch.ones(8), torch.zeros(8)
    for checks in ("all", "bounds", "none"):
        c.zero_()
        module["add"][1, 8](a, a, c, 8, checks=checks)
        assert c.tolist() == [2] * 8
    with pytest.raises(ValueError, match="checks='some': expected one of all, bounds, none"):
        module["add"][1, 8](a, a, c, 8, checks="some")
    monkeypatch.setenv("WARPWISE_CHECKS", "loud")
    with pytest.raises(ValueError, match="WARPWISE_CHECKS='loud'"):
        module["add"][1, 8](a, a, c, 8)


@pytest.mark.parametrize("order", ["forward", "reverse", "shuffle"])
def test_a_correct_kernel_passes_in_every_order(module: ww.cuda.Module, order: str) -> None:
    a, b = torch.randn(2, 100)
    c = torch.zeros(100)
    module["add"][4, 32](a, b, c, 100, order=order, seed=3)
    assert torch.equal(c, a + b)


def test_structures_and_vectors_by_value() -> None:
    class Affine(ctypes.Structure):
        _fields_ = (("scale", ctypes.c_float), ("shift", ctypes.c_double))

    source = """#include <cuda_fp16.h>
    struct Affine { float scale; double shift; };
    __global__ void k(double* out, signed char c, Affine map, bool twice, float4 v, __half h, int3 i) {
        out[0] = (twice ? 2 : 1) * (map.scale * 10 + map.shift) + c + v.w + __half2float(h) + i.z;
    }"""
    out = torch.zeros(1, dtype=torch.float64)
    ww.cuda.load(source)["k"][1, 1](out, -3, Affine(2.0, 5.0), True, (0, 0, 0, 0.5), 0.25, (0, 0, 100))
    assert out.item() == 2 * (20 + 5) - 3 + 0.5 + 0.25 + 100


def test_element_types_match_the_device_headers() -> None:
    names = [known.name for known in elements.known()]
    text = "#include <warpwise/host/torch.h>\n#include <cuda_fp8.h>\n__global__ void k(int* layout, "
    text += ", ".join(f"{name} v{i}" for i, name in enumerate(names)) + ") {\n"
    text += "".join(
        f"layout[{2 * i}] = sizeof({name}); layout[{2 * i + 1}] = alignof({name});\n" for i, name in enumerate(names)
    )
    kernel = ww.cuda.load(text + "}\n")["k"]
    layout = torch.zeros(2 * len(names), dtype=torch.int32)
    kernel[1, 1](ww.cuda.out(layout), *(bytes(known.bytes) if known.vector else 0 for known in elements.known()))
    seen = [tuple(pair) for pair in layout.reshape(-1, 2).tolist()]
    assert dict(zip(names, seen, strict=True)) == {known.name: (known.bytes, known.align) for known in elements.known()}
    assert [p.element for p in parse(kernel.build().function_type)][1:] == names


def test_null_pointers() -> None:
    source = "__global__ void k(const float* bias, float* y) { y[0] = bias ? bias[0] : -1.0f; }"
    y = torch.zeros(1)
    kernel = ww.cuda.load(source)["k"][1, 1]
    kernel(None, y)
    assert y.item() == -1
    kernel(torch.tensor([2.0]), y)
    assert y.item() == 2


def test_kernels_in_namespaces() -> None:
    module = ww.cuda.load("namespace a { namespace b { __global__ void k(int* x) { x[0] = 4; } } }")
    x = torch.zeros(1, dtype=torch.int32)
    module["a::b::k"][1, 1](x)
    assert x.item() == 4


# ---- Constants

WEIGHTED = """
__constant__ float weights[3];
namespace inner { static __constant__ int offset; }
__global__ void weighted(float* x) { x[threadIdx.x] = weights[threadIdx.x] + inner::offset; }
__global__ void weighted_twice(float* x) { x[threadIdx.x] = 2 * weights[threadIdx.x]; }
"""


def test_constants_apply_to_kernels_compiled_later() -> None:
    module = ww.cuda.load(WEIGHTED)
    x = torch.zeros(3)
    findings = module["weighted"][1, 3].check(x)
    assert [(finding.kind, finding.variable) for finding in findings] == [
        (UninitializedRead, "weights"),
        (UninitializedRead, "inner::offset"),
    ]
    module.set_constant("inner::offset", np.int32(0))
    values = torch.tensor([1.0, 2.0, 3.0])
    module.set_constant("weights", values)
    values.zero_()
    module["weighted"][1, 3](x)
    assert x.tolist() == [1, 2, 3]
    module.set_constant("inner::offset", np.int32(10))
    module["weighted"][1, 3](x, checks="none")
    assert x.tolist() == [11, 12, 13]
    module["weighted_twice"][1, 3](x)
    assert x.tolist() == [2, 4, 6]


def test_modules_of_one_source_have_separate_constants() -> None:
    first, second, x = ww.cuda.load(WEIGHTED), ww.cuda.load(WEIGHTED), torch.zeros(3)
    for module, value in ((first, 1.0), (second, 2.0), (first, 1.0), (second, 2.0)):
        module.set_constant("weights", torch.full((3,), value))
    for module, value in ((first, 2.0), (second, 4.0), (first, 2.0)):
        module["weighted_twice"][1, 3](x)
        assert x.tolist() == [value] * 3


def test_invalid_constants_raise() -> None:
    module = ww.cuda.load(WEIGHTED)
    with pytest.raises(CompileError, match="set_constant: the source declares no variable 'weight'"):
        module.set_constant("weight", torch.zeros(3))
    with pytest.raises(
        ArgumentError, match=r"set_constant\('weights'\): got float 1.0; pass a tensor, an array or a NumPy scalar"
    ):
        module.set_constant("weights", 1.0)
    module.set_constant("weights", torch.zeros(3, dtype=torch.float64))
    with pytest.raises(ArgumentError, match="set_constant: weights has 12 bytes, got 24"):
        module["weighted"][1, 3](torch.zeros(3))
