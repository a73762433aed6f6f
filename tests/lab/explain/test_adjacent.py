"""The hint on adjacent accesses of a thread, on machine code of small kernels."""

from __future__ import annotations

import pytest
import torch

from warpwise import cuda, lab, machine
from warpwise.lab.explain.hints.adjacent import Adjacent, adjacent_accesses
from warpwise.lab.explain.hints.hint import Hint

SCALARS = """void f(const float* a, float* b) {
  const int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
  const float x[4] = {a[i], a[i + 1], a[i + 2], a[i + 3]};
  for (int k = 0; k < 4; ++k) b[i + k] = 2 * x[k];
}"""
VECTORS = """void f(const float* a, float* b) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float4 x = reinterpret_cast<const float4*>(a)[i];
  reinterpret_cast<float4*>(b)[i] = {2 * x.x, 2 * x.y, 2 * x.z, 2 * x.w};
}"""
APART = SCALARS.replace("i + 1]", "i + 9]").replace("b[i + k]", "b[i + 2 * k]")
BARRIERS = SCALARS.replace("b[i + k] = 2 * x[k];", "{ b[i + k] = 2 * x[k]; __syncthreads(); }")
ROWS = SCALARS.replace("b[i + k]", "b[i / 4 + k * gridDim.x * blockDim.x]")
VOLATILE = SCALARS.replace("const float* a", "const volatile float* a").replace("float* b", "volatile float* b")
EITHER = """void f(const float* a, float* b) {
  const int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (threadIdx.x % 2) b[i] = a[i];
  else b[i + 1] = a[i + 1];
}"""
ALIASED = """void f(const float* a, float* b) {
  const int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
  b[i] = 2 * a[i];
  b[i + 1] = 3 * a[i + 1];
}"""
THREE = SCALARS.replace("k < 4", "k < 3").replace(", a[i + 3]}", "}")
UNIFORM = """void f(const float* a, float* b, int k) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  const float* row = a + t / 32 * k;
  b[t] = row[0] + row[1] + row[2] + row[3];
}"""


def kernel(tmp_path, source: str) -> cuda.Kernel:
    (tmp_path / "near.cu").write_text(f"__global__ {source}\n")
    return cuda.load(tmp_path / "near.cu")["f"]


@pytest.mark.parametrize("source,runs", [
    (SCALARS, {("ld", 4, 4), ("st", 4, 4)}), (VECTORS, set()), (APART, {("ld", 2, 4)}), (BARRIERS, {("ld", 4, 4)}),
    (ROWS, {("ld", 4, 4)}), (VOLATILE, set()), (EITHER, set()), (THREE, {("ld", 3, 4), ("st", 3, 4)}),
    (SCALARS.replace("float", "short"), {("ld", 4, 2), ("st", 4, 2)}),
])  # fmt: skip
def test_runs_of_one_base_without_a_barrier(tmp_path, source, runs):
    compiled = kernel(tmp_path, source).compile("sm_90")
    program = machine.load_program(compiled.cubin, compiled.symbol).instructions
    assert {(run.op, len(run.instructions), run.width) for run in adjacent_accesses(program)} == runs


@pytest.mark.parametrize("count,width,unit,pieces", [
    (4, 4, 16, [16]), (3, 4, 8, [8, 4]), (7, 4, 16, [16, 8, 4]), (9, 4, 16, [16, 16, 4]), (6, 2, 8, [8, 4]),
])  # fmt: skip
def test_the_widths_that_cover_exactly_the_bytes(count, width, unit, pieces):
    assert Adjacent("ld", tuple(range(count)), width, False).pieces(unit) == pieces


def hints(tmp_path, source: str, skipped: int = 0, *more: int) -> list[Hint]:
    a, b = torch.ones(4 * 4096 + 64), torch.ones(4 * 4096 + 64)
    found = lab.explain(kernel(tmp_path, source)[32, 128], a[skipped:], b[skipped:], *more)
    return [hint for hint in found.hints if hint.title.startswith("adjacent")]


def test_the_hint_names_the_line_and_the_width(tmp_path):
    stores, loads = sorted(hints(tmp_path, SCALARS), key=lambda hint: hint.title, reverse=True)
    assert (stores.title, stores.line, loads.title, loads.line) == ("adjacent stores", 4, "adjacent loads", 3)
    assert stores.text == (
        "4 stores of 4 bytes write 16 adjacent bytes of a thread, aligned to 16 bytes: one store of 16 bytes would do."
    )
    assert stores.speedup > 1 and stores.value == 4 * 4096 / 32


def test_the_hint_leaves_the_next_element_alone(tmp_path):
    assert all("2 stores of 8 and 4 bytes" in hint.text or "2 loads of 8 and 4 bytes" in hint.text
               for hint in hints(tmp_path, THREE))  # fmt: skip


@pytest.mark.parametrize("skipped,unit", [(0, 16), (2, 8), (1, 0)])
def test_the_alignment_of_the_addresses_limits_the_width(tmp_path, skipped, unit):
    found = hints(tmp_path, SCALARS, skipped)
    assert all(f"aligned to {unit} bytes" in hint.text for hint in found) and len(found) == (2 if unit else 0)


@pytest.mark.parametrize("k,unit", [(100, 16), (102, 8), (101, 0)])
def test_the_rows_of_all_warps_count(tmp_path, k, unit):
    """The first warp's row is aligned in each case."""
    found = hints(tmp_path, UNIFORM, 0, k)
    assert [f"aligned to {unit} bytes" in hint.text for hint in found] == [True] * (unit > 0)


def test_accesses_that_may_overlap_are_named(tmp_path):
    stores, loads = sorted(hints(tmp_path, ALIASED), key=lambda hint: hint.title, reverse=True)
    assert "If the loads in between never have the same address, declare the pointers __restrict__." in stores.idea
    assert "If the stores in between never" in loads.idea
    assert all("__restrict__" not in hint.idea for hint in hints(tmp_path, SCALARS))


@pytest.mark.parametrize("source", [VECTORS, VOLATILE, EITHER, APART.replace("i + 3]", "i + 30]")])
def test_no_hint_on_vectors_conditions_volatile_and_addresses_apart(tmp_path, source):
    assert hints(tmp_path, source) == []
