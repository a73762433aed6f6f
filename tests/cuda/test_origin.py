"""A kernel in a string of a Python file: messages give the line of that file."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from warpwise import cuda, explain

FILE = r'''
from warpwise import cuda

FIRST = cuda.load(r"""
__global__ void twice(const float* x, float* y) {
  y[threadIdx.x] = 2 * x[threadIdx.x];
}
""")
SECOND = cuda.load(r"""
__global__ void twice(const float* x, float* y) {
  y[threadIdx.x] = 2 * x[threadIdx.x];
}
""")
BAD = cuda.load(r"""
__global__ void bad(float* y) {
  y[0] = wrong_name;
}
""")
ESCAPED = cuda.load("\n__global__ void twice(const float* x, float* y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }\n")
'''


@pytest.fixture
def module(tmp_path: Path) -> object:
    path = tmp_path / "kernels_in_strings.py"
    path.write_text(FILE)
    spec = importlib.util.spec_from_file_location("kernels_in_strings", path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize("name, line", [("FIRST", 6), ("SECOND", 11)])
def test_a_finding_gives_the_line_of_the_python_file(module: object, name: str, line: int) -> None:
    kernel: cuda.Kernel = getattr(module, name)["twice"]
    with pytest.raises(cuda.OutOfBounds, match=rf"at kernel\.cu:3 \(kernels_in_strings\.py:{line}\):  y\[") as caught:
        kernel[1, 32](np.zeros(4, np.float32), np.zeros(32, np.float32))
    assert caught.value.finding is not None and caught.value.finding.access is not None
    assert (caught.value.finding.access.file, caught.value.finding.access.line) == ("kernel.cu", 3)


def test_a_text_with_escapes_keeps_its_own_lines(module: object) -> None:
    with pytest.raises(cuda.OutOfBounds, match=r"at kernel\.cu:2:  __global__"):
        module.ESCAPED["twice"][1, 32](np.zeros(4, np.float32), np.zeros(32, np.float32))  # type: ignore[attr-defined]


def test_compile_errors_give_the_line_of_the_python_file(module: object) -> None:
    bad: cuda.Kernel = module.BAD["bad"]  # type: ignore[attr-defined]
    with pytest.raises(cuda.CompileError, match=r"kernel\.cu:3 \(kernels_in_strings\.py:16\): error"):
        bad.build()
    with pytest.raises(cuda.CompileError, match=r"kernel\.cu\(3\) \(kernels_in_strings\.py:16\): error"):
        bad.compile("sm_90")


def test_an_explanation_names_the_python_file(module: object) -> None:
    x, y = np.zeros(32, np.float32), np.zeros(32, np.float32)
    made = explain(module.SECOND["twice"][1, 32], x, y)  # type: ignore[attr-defined]
    assert made.origin == "kernels_in_strings.py:9"
    assert "── kernel.cu, line 1 is kernels_in_strings.py:9 ─" in made.text(120)
