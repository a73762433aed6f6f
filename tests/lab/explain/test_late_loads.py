"""The hint on loads that could start before a wait, on machine code of small kernels."""

from __future__ import annotations

import pytest
import torch

from warpwise import cuda, lab, machine
from warpwise.lab.explain.hints.late_loads import late_loads

STORE = "void f(const float* a, float* b, float* c, int n) { b[threadIdx.x] = 2 * a[0];\n c[threadIdx.x] = 3 * a[n]; }"
BRANCH = """void f(const float* a, const float* g, float* c, int n) {
  int i = threadIdx.x; float x = 0;
  if (i < n) x = a[i];
  float s = x + __shfl_xor_sync(~0u, x, 1);
  if (i < n) c[i] = (x - s) * g[i];
}"""
AHEAD = BRANCH.replace("float x = 0;", "float x = 0, h = i < n ? g[i] : 0;").replace("* g[i]", "* h")
OTHER_PATH = """void f(const float* a, const float* g, float* c, int n) {
  if (n > 5) c[threadIdx.x] = a[threadIdx.x] * 2;
  else c[threadIdx.x] = g[threadIdx.x] * 3;
}"""
BARRIER = """void f(const float* a, const float* g, float* c) {
  __shared__ float s[32];
  s[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  c[threadIdx.x] = s[31 - threadIdx.x] * g[threadIdx.x];
}"""
ITERATIONS = """void f(const float* a, float* c, int n) {
  float s = 0;
#pragma unroll 1
  for (int k = 0; k < n; ++k) s += a[k * n + threadIdx.x];
  c[threadIdx.x] = s;
}"""
DEPENDENT = "void f(const int* a, const float* g, float* c) { c[threadIdx.x] = g[a[threadIdx.x]]; }"
DECIDED = "void f(const int* a, const float* g, float* c) { if (a[threadIdx.x]) c[threadIdx.x] = g[threadIdx.x]; }"


def kernel(tmp_path, source: str) -> cuda.Kernel:
    (tmp_path / "late.cu").write_text(f"__global__ {source}\n")
    return cuda.load(tmp_path / "late.cu")["f"]


@pytest.mark.parametrize("source,lines", [
    (STORE, [(2, 1, 1)]), (BRANCH, [(5, 4, 3)]),
    *((each, []) for each in (AHEAD, OTHER_PATH, BARRIER, ITERATIONS, DEPENDENT, DECIDED)),
    (STORE.replace("*", "* __restrict__").replace("2 * __restrict__", "2 *").replace("3 * __restrict__", "3 *"), []),
])  # fmt: skip
def test_loads_that_could_precede_a_wait(tmp_path, source, lines):
    compiled = kernel(tmp_path, source).compile("sm_90")
    program = machine.load_program(compiled.cubin, compiled.symbol).instructions
    found = late_loads(program)
    assert [tuple(program[i].line for i in (each.load, each.after, each.other)) for each in found] == lines
    assert all(each.other < each.after < each.load < each.use for each in found)


@pytest.mark.parametrize("source,is_late", [(BRANCH, True), (AHEAD, False)])
def test_the_hint_names_the_wait_and_the_other_load(tmp_path, source, is_late):
    a, g, c = torch.rand(32), torch.rand(32), torch.zeros(32)
    found = lab.explain(kernel(tmp_path, source)[1, 32], a, g, cuda.out(c), 32)
    hints = [hint for hint in found.hints if hint.title == "late loads"]
    assert bool(hints) == is_late
    for hint in hints:
        assert (hint.line, hint.value > 0) == (5, True)
        assert hint.text.startswith("a load of this line starts only when the load at late.cu:3 has arrived, which ")
        assert "which late.cu:4 waits for. Its address does not depend on it" in hint.text
