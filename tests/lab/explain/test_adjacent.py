"""The hint on adjacent accesses of a thread, on machine code of small kernels."""

from __future__ import annotations

import pytest
import torch

from warpwise import cuda, lab, machine
from warpwise.lab.explain.hints.adjacent import adjacent_accesses
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


def kernel(tmp_path, source: str) -> cuda.Kernel:
    (tmp_path / "near.cu").write_text(f"__global__ {source}\n")
    return cuda.load(tmp_path / "near.cu")["f"]


@pytest.mark.parametrize("source,runs", [
    (SCALARS, {("ld", 4, 4), ("st", 4, 4)}), (VECTORS, set()), (APART, {("ld", 2, 4)}), (BARRIERS, {("ld", 4, 4)}),
    (ROWS, {("ld", 4, 4)}), (SCALARS.replace("float", "short"), {("ld", 4, 2), ("st", 4, 2)}),
])  # fmt: skip
def test_runs_of_one_base_without_a_barrier(tmp_path, source, runs):
    compiled = kernel(tmp_path, source).compile("sm_90")
    program = machine.load_program(compiled.cubin, compiled.symbol).instructions
    assert {(run.op, len(run.instructions), run.width) for run in adjacent_accesses(program)} == runs


def hints(tmp_path, source: str, skipped: int = 0) -> list[Hint]:
    a, b = torch.ones(4 * 4096 + 64), torch.ones(4 * 4096 + 64)
    found = lab.explain(kernel(tmp_path, source)[32, 128], a[skipped:], b[skipped:])
    return [hint for hint in found.hints if hint.title.startswith("adjacent")]


def test_the_hint_names_the_line_and_the_width(tmp_path):
    stores, loads = sorted(hints(tmp_path, SCALARS), key=lambda hint: hint.title, reverse=True)
    assert (stores.title, stores.line, loads.title, loads.line) == ("adjacent stores", 4, "adjacent loads", 3)
    assert stores.text == (
        "4 stores of 4 bytes write 16 adjacent bytes of a thread, aligned to 16 bytes: one store of 16 bytes would do."
    )
    assert stores.speedup > 1 and stores.value == 4 * 4096 / 32


@pytest.mark.parametrize("skipped,unit", [(0, 16), (2, 8), (1, 0)])
def test_the_alignment_of_the_addresses_limits_the_width(tmp_path, skipped, unit):
    found = hints(tmp_path, SCALARS, skipped)
    assert all(f"aligned to {unit} bytes" in hint.text for hint in found) and len(found) == (2 if unit else 0)


@pytest.mark.parametrize("source", [VECTORS, APART.replace("i + 3]", "i + 30]")])
def test_no_hint_on_vectors_and_on_addresses_apart(tmp_path, source):
    assert hints(tmp_path, source) == []
