"""wt.compile and Kernel.compile_for, without a GPU."""

from __future__ import annotations

import importlib.util
import inspect
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from tests.commands import interpreter

from warpwise import triton as wt
from warpwise.cuda import ArgumentError, CompileError, LaunchError
from warpwise.triton import cubin

# Triton 3.9 warns at each compilation that the default of fp fusion will change.
pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION:UserWarning")


@wt.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + tl.load(y_ptr + offsets, mask=mask), mask=mask)


@wt.jit
def small_matmul(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, cols, inner = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, 4 * K, K):
        a = tl.load(a_ptr + rows * 4 * K + (start + inner)[None, :])
        total = tl.dot(a, tl.load(b_ptr + (start + inner)[:, None] * N + cols), total)
    tl.store(c_ptr + rows * N + cols, total.to(c_ptr.dtype.element_ty))


POINTERS = {"x_ptr": "*fp32:16", "y_ptr": "*fp32:16", "out_ptr": "*fp32:16", "n": "i32:16"}


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_compile_from_a_signature(target: str) -> None:
    compiled = wt.compile(add, POINTERS, {"BLOCK": 512}, target=target, num_warps=4)
    assert compiled.registers > 0
    assert compiled.spills == 0
    assert compiled.shared == 0
    assert (compiled.name, compiled.target, compiled.num_warps) == ("add", target, 4)
    assert f".target {target}" in compiled.ptx
    assert compiled.cubin.startswith(b"\x7fELF")
    assert "tt.load" in compiled.ttir
    assert "ttg" in compiled.ttgir
    assert "define" in compiled.llir
    assert compiled.ptx.count("global.v4") == 3, "the signature declares 16-byte alignment"
    unaligned = wt.compile(add, {**POINTERS, "x_ptr": "*fp32"}, {"BLOCK": 512}, target=target)
    assert unaligned.ptx.count("global.v4") == 2


def test_compile_for_specialises_on_arguments() -> None:
    shapes = [torch.empty(1024, device="meta") for _ in range(3)]
    compiled = add.compile_for(*shapes[:2], wt.out(shapes[2]), 1024, BLOCK=256, num_warps=2, target="sm_80")
    assert compiled.num_warps == 2
    assert compiled.target == "sm_80"
    assert compiled.signature == {
        "x_ptr": "*fp32",
        "y_ptr": "*fp32",
        "out_ptr": "*fp32",
        "n": "i32",
        "BLOCK": "constexpr",
    }
    assert "ld.global.v" in compiled.ptx
    one = add.compile_for(*shapes, 1, BLOCK=256)
    assert one.signature["n"] == "constexpr", "an integer argument of 1 becomes a constant, as in a launch"
    odd = torch.empty(1025)[1:]
    assert "ld.global.v" not in add.compile_for(odd, odd, odd, 1024, BLOCK=256).ptx, (
        "an unaligned view is not loaded in vectors"
    )
    array = np.zeros(1024, dtype=np.float16)
    assert add.compile_for(array, array, array, 1024, BLOCK=256).signature["x_ptr"] == "*fp16"
    assert (
        wt.compile(add, (*shapes, 1024), {"BLOCK": 256}).registers
        == add.compile_for(*shapes, 1024, BLOCK=256).registers
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_shared_memory_of_a_pipelined_matmul(dtype: torch.dtype) -> None:
    x = torch.empty(64, 256, dtype=dtype, device="meta")
    compiled = small_matmul.compile_for(x, x, x, M=64, N=64, K=64, num_warps=4, num_stages=3)
    assert compiled.shared >= 2 * 64 * 64 * dtype.itemsize
    assert compiled.registers > 32
    assert "wgmma" in compiled.ptx


def test_register_spills() -> None:
    x = torch.empty(128, 256, dtype=torch.float16, device="meta")
    compiled = small_matmul.compile_for(x, x, x, M=128, N=256, K=32, target="sm_80", num_warps=4, maxnreg=64)
    assert compiled.spills > 0
    assert compiled.registers <= 64


def test_resources_agree_with_cuobjdump(tmp_path: Path) -> None:
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    if not tool.exists():
        pytest.skip("cuobjdump is not in this Triton package")
    x = torch.empty(128, 256, dtype=torch.float16, device="meta")
    compiled = small_matmul.compile_for(x, x, x, M=128, N=256, K=32, target="sm_80", num_warps=4, maxnreg=64)
    path = tmp_path / "small_matmul.cubin"
    path.write_bytes(compiled.cubin)
    text = subprocess.run([tool, "--dump-resource-usage", path], capture_output=True, text=True, check=True).stdout
    assert f"REG:{compiled.registers} STACK:{compiled.spills} " in text
    with pytest.raises(ValueError, match="expected a cubin"):
        cubin.resources(b"PTX")


def test_shared_memory_limit() -> None:
    x = torch.empty(128, 1024, dtype=torch.float32, device="meta")
    with pytest.raises(
        LaunchError, match=r"small_matmul: needs [\d,]+ bytes of shared memory per block, sm_80 has 166,912"
    ):
        small_matmul.compile_for(x, x, x, M=128, N=128, K=128, target="sm_80", num_stages=4)


@wt.jit
def undefined_name(x):
    return x + not_defined_anywhere  # noqa: F821


@wt.jit
def broken(
    x_ptr,
    BLOCK: tl.constexpr,
):
    offsets = tl.arange(0, BLOCK)
    x = undefined_name(tl.load(x_ptr + offsets))
    tl.store(x_ptr + offsets, x)


@wt.jit
def uneven(x_ptr, SIZE: tl.constexpr):
    tl.static_assert(SIZE % 16 == 0, "a tile is 16 wide")
    tl.store(x_ptr + tl.arange(0, SIZE), 0.0)


def test_ptxas_error_does_not_print_the_ptx(capsys: pytest.CaptureFixture[str]) -> None:
    x = torch.empty(128, 256, dtype=torch.float16, device="meta")
    with pytest.raises(CompileError, match="ptxas"):
        small_matmul.compile_for(x, x, x, M=128, N=256, K=32, num_warps=4, maxnreg=64)
    assert len(capsys.readouterr().out) < 1000, "the PTX must not be printed"


def test_compile_errors_name_file_and_line() -> None:
    x = torch.empty(64, device="meta")
    _, first = inspect.getsourcelines(undefined_name.fn)
    with pytest.raises(CompileError, match="not_defined_anywhere is not defined") as caught:
        broken.compile_for(x, BLOCK=64)
    assert f"{__file__}:{first + 2}: broken" in str(caught.value), "expected the line in the device function"
    assert "return x + not_defined_anywhere" in str(caught.value)
    _, first = inspect.getsourcelines(uneven.fn)
    with pytest.raises(CompileError, match="a tile is 16 wide") as caught:
        uneven.compile_for(x, SIZE=8)
    assert f"{__file__}:{first + 2}: uneven" in str(caught.value)


def test_invalid_compile_arguments() -> None:
    x = torch.empty(64, device="meta")
    with pytest.raises(ArgumentError, match="expected a type or a constant value for n"):
        wt.compile(add, {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32"}, {"BLOCK": 64})
    with pytest.raises(ArgumentError, match="no parameter 'z_ptr'"):
        wt.compile(add, {"z_ptr": "*fp32"})
    with pytest.raises(ArgumentError, match="'num_wraps'"):
        add.compile_for(x, x, x, 64, BLOCK=64, num_wraps=1)
    with pytest.raises(ArgumentError, match="'num_wraps'"):
        wt.compile(add, POINTERS, {"BLOCK": 64}, num_wraps=1)
    with pytest.raises(ArgumentError, match="'hopper'"):
        add.compile_for(x, x, x, 64, BLOCK=64, target="hopper")
    with pytest.raises(ArgumentError, match="missing a required argument: 'n'"):
        add.compile_for(x, x, x)
    with pytest.raises(ArgumentError, match="expected a Triton kernel"):
        wt.compile(3, POINTERS)


def test_compile_after_an_interpreted_launch_in_a_new_process() -> None:
    """The code generator has a table keyed by ``tl.static_assert``: it must be imported before that is patched."""
    code = """
import torch
from tests.triton.test_compile import *
add[(1,)](*torch.zeros(3, 64), 64, BLOCK=64)
try:
    uneven.compile_for(torch.empty(64), SIZE=8)
except CompileError:
    print("refused")
"""
    answer = interpreter(code)
    assert answer.stdout == "refused\n", answer.stderr


def test_a_copy_of_a_file_does_not_get_the_line_table_of_the_original(tmp_path: Path) -> None:
    text = "import triton.language as tl\nimport warpwise.triton as wt\n\n\n@wt.jit\ndef k(y):\n    tl.store(y, 1.0)\n"
    for name in ("original", "copy"):
        path = tmp_path / f"{name}_of_kernel.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(f"triton_{name}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        made = module.k.compile_for(torch.empty(4, device="meta"), target="sm_90")
        assert path.name.encode() in made.asm["cubin"]
