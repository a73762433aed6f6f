"""Local variables that a kernel reads before it writes them."""

from __future__ import annotations

import numpy as np
import pytest

from warpwise import cuda
from warpwise.cuda.errors import CompileError, MisalignedAccess, OutOfBounds, UninitializedRead

SOURCE = """
__global__ void sum(const float* x, float* y) {
  float total;
  for (int i = 0; i < 4; i++) total += x[i];
  y[threadIdx.x] = total;
}
__global__ void never_written(const float* x, float* y) {
  float value;
  y[threadIdx.x] = value + x[0];
}
__global__ void counted(const float* x, float* y) {
  int count;
  if (x[threadIdx.x] > 0) count++;
  y[threadIdx.x] = count;
}

__global__ void written_in_the_same_branch(const float* x, float* y) {
  float value;
  if (threadIdx.x < 4) value = x[threadIdx.x];
  if (threadIdx.x < 4) y[threadIdx.x] = value;
}
__global__ void written_by_assembly(const float* x, float* y) {
  unsigned value;
  asm("mov.b32 %0, %1;" : "=r"(value) : "r"(threadIdx.x));
  y[threadIdx.x] = value;
}
__device__ void read(const float* x, float& value) { value = x[0]; }
__global__ void written_by_reference(const float* x, float* y) {
  float value;
  read(x, value);
  value += 1;
  y[threadIdx.x] = value;
}
__global__ void begins_at_zero(const float* x, float* y) {
  float total = 0;
  for (int i = 0; i < 4; i++) total += x[i];
  y[threadIdx.x] = total;
}
"""
MODULE = cuda.load(SOURCE)
UNSET = {"sum": "total", "never_written": "value", "counted": "count"}
CORRECT = ("written_in_the_same_branch", "written_by_assembly", "written_by_reference", "begins_at_zero")


@pytest.mark.parametrize("name", [*UNSET, *CORRECT])
def test_a_local_variable_needs_a_value_before_it_is_read(name: str) -> None:
    findings = MODULE[name][1, 32].check(np.ones(32, "f4"), np.zeros(32, "f4"))
    assert [(finding.kind, finding.variable) for finding in findings] == (
        [(UninitializedRead, UNSET[name])] if name in UNSET else []
    )
    if findings:
        assert "kernel.cu:" in str(findings[0])


def test_errors_come_without_warnings() -> None:
    module = cuda.load("__global__ void f(float* x) { float value; x[0] = value; x[1] = missing; }")
    with pytest.raises(CompileError, match="missing") as caught:
        module["f"].build()
    assert "uninitialized" not in str(caught.value)


@pytest.mark.parametrize(
    "declared, index, kind, part",
    [
        ("int first", "first + threadIdx.x", OutOfBounds, "the index"),
        ("int row", "row * 33 + threadIdx.x", OutOfBounds, "the index"),
        ("float* to", "", MisalignedAccess, "the address"),
    ],
)
def test_a_variable_that_only_some_paths_set_contains_a_fill_pattern(declared, index, kind, part) -> None:
    name, at = declared.split()[-1], f"y[{index}]" if index else "to[threadIdx.x]"
    kernel = cuda.load(f"""__global__ void k(float* y, int n) {{
 {declared};
 if (threadIdx.x < n) {name} = {"0" if index else "y"};
 {at} = 1;
}}""")["k"]
    (finding,) = kernel[1, 32].check(np.zeros(32, "f4"), 8)
    assert (finding.kind, finding.access.thread, finding.access.line) == (kind, (8, 0, 0), 4)
    assert finding.hint.startswith(f"{part} probably comes from a local variable that has no value")
    assert not kernel[1, 32].check(np.zeros(32, "f4"), 32)
