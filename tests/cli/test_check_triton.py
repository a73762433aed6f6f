"""``warpwise check`` of Triton kernels that do not compile: one line and the place, not a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.test_check import check, said

KERNELS = """
import torch
import triton
import triton.language as tl

WIDTH = 16

@triton.jit
def odd_width(x, y, n):
    i = tl.arange(0, 12)
    tl.store(y + i, tl.load(x + i))

@triton.jit
def runtime_width(x, y, n):
    i = tl.arange(0, n)
    tl.store(y + i, tl.load(x + i))

@triton.jit
def misspelt(x, y, n):
    i = tl.arange(0, 16)
    tl.store(y + i, tl.load(xx + i))

@triton.jit
def no_function(x, y, n):
    i = tl.arange(0, 16)
    tl.store(y + i, tl.softmx(tl.load(x + i)))

@triton.jit
def torch_function(x, y, n):
    i = tl.arange(0, 16)
    tl.store(y + i, torch.relu(tl.load(x + i)))

@triton.jit
def two_shapes(x, y, n):
    i = tl.arange(0, 16)
    tl.store(y + i, tl.load(x + i) + tl.arange(0, 8))

@triton.jit
def vector_in_dot(x, y, n):
    i = tl.arange(0, 16)
    tl.store(y + i, tl.dot(tl.load(x + i), tl.load(x + i)))

@triton.jit
def chained(x, y, n):
    i = j = tl.arange(0, 16)
    tl.store(y + i, tl.load(x + j))

@triton.jit
def global_width(x, y, n):
    i = tl.arange(0, WIDTH)
    tl.store(y + i, tl.load(x + i))

@triton.jit
def changing_type(x, y, n):
    total = 0
    for k in range(n):
        total = tl.load(x + k + tl.arange(0, 16))
    tl.store(y + tl.arange(0, 16), total)

@triton.jit
def python_sum(x, y, n):
    i = tl.arange(0, 16)
    tl.store(y + i, sum([tl.load(x + i), tl.load(x + i + 1)]))
"""


@pytest.mark.parametrize(
    "kernel, line, words",
    [
        ("odd_width", "i = tl.arange(0, 12)", "must be a power of 2"),
        ("runtime_width", "i = tl.arange(0, n)", "must be of type tl.constexpr"),
        ("misspelt", "tl.store(y + i, tl.load(xx + i))", "name 'xx' is not defined"),
        ("no_function", "tl.store(y + i, tl.softmx(tl.load(x + i)))", "no attribute 'softmx'"),
        ("torch_function", "tl.store(y + i, torch.relu(tl.load(x + i)))", "must be Tensor"),
        ("two_shapes", "tl.store(y + i, tl.load(x + i) + tl.arange(0, 8))", "incompatible dimensions"),
        ("vector_in_dot", "tl.store(y + i, tl.dot(tl.load(x + i), tl.load(x + i)))", "must have equal ranks"),
        ("chained", "", "does not support chained assignment"),
        # The interpreter runs these; Triton's front end rejects them.
        ("global_width", "i = tl.arange(0, WIDTH)", "Cannot access global variable WIDTH"),
        ("changing_type", "for k in range(n):", "Loop-carried variable total has initial type int32"),
        ("python_sum", "tl.store(y + i, sum([tl.load(x + i), tl.load(x + i + 1)]))", "sum is not defined"),
    ],
)
def test_a_kernel_that_triton_does_not_compile(tmp_path: Path, kernel: str, line: str, words: str) -> None:
    path = tmp_path / "kernels_that_do_not_compile.py"
    path.write_text(KERNELS)
    done = check(
        path, "--kernel", kernel, "--grid", "1", "--arg", "x=f32[64]", "--arg", "y=out:f32[16]", "--arg", "n=8"
    )
    text = said(done)
    assert done.return_value == 1 and text.startswith("CompileError: ") and words in text, text
    assert line in text and "Traceback" not in text


AUTOTUNED = """
import triton
import triton.language as tl

@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def twice(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)
"""


@pytest.mark.parametrize("grid, given", [("4", ["--arg", "BLOCK=256"]), ("16", [])])
def test_a_constexpr_of_an_autotuned_kernel_replaces_that_of_its_configuration(tmp_path, grid, given) -> None:
    path = tmp_path / "autotuned_kernel_of_check.py"
    path.write_text(AUTOTUNED)
    common = ("--kernel", "twice", "--arg", "x=f32[1000]", "--arg", "y=out:f32[1000]", "--arg", "n=1000")
    done = check(path, *common, "--grid", grid, *given)
    assert done.return_value == 0, said(done)
    done = check(path, *common, "--grid", "1", *given)
    assert done.return_value == 1 and "UnwrittenOutput: twice" in said(done), said(done)


@pytest.mark.parametrize(
    "given, words",
    [
        (["--block", "32"], "twice is a Triton kernel: --block is for CUDA kernels"),
        (["--shared", "8", "--define", "N=2"], "twice is a Triton kernel: --shared, --define are for CUDA kernels"),
    ],
)
def test_options_of_cuda_kernels_are_refused_for_a_triton_kernel(tmp_path: Path, given: list[str], words: str) -> None:
    path = tmp_path / "autotuned_kernel_of_check.py"
    path.write_text(AUTOTUNED)
    done = check(path, "--kernel", "twice", "--grid", "16", "--arg", "x=f32[1000]", *given)
    assert words in said(done)


def test_a_file_without_an_operation_lists_its_kernels(tmp_path: Path) -> None:
    path = tmp_path / "autotuned_kernel_of_check.py"
    path.write_text(AUTOTUNED)
    assert "for one of its kernels (twice) give --kernel, --grid and --arg" in said(check(path))


def test_a_file_of_a_package_imports_its_neighbours(tmp_path: Path) -> None:
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    (inner.parent / "__init__.py").write_text("")
    (inner.parent / "sizes.py").write_text("WIDTH = 16\n")
    (inner / "__init__.py").write_text("")
    (inner / "names.py").write_text("from outer.sizes import WIDTH\n")
    (inner / "add.py").write_text(
        "import triton\nimport triton.language as tl\nfrom ..sizes import WIDTH\nfrom .names import WIDTH as SAME\n"
        "@triton.jit\ndef add(x, y, W: tl.constexpr):\n    i = tl.arange(0, W)\n    tl.store(y + i, tl.load(x + i))\n"
    )
    done = check(inner / "add.py", "--kernel", "add", "--grid", "1", "--arg", "x=f32[16]", "--arg", "y=out:f32[16]",
                 "--arg", "W=16")  # fmt: skip
    assert done.exit_code == 0, done.output
