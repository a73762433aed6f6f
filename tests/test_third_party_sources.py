"""``benchmarks/third_party.py``: which kernels of a folder are counted, with which template arguments."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks import kernel_expressions, kernel_runs, third_party

from warpwise import cuda
from warpwise.cuda.errors import DataRace, Finding

SOURCE = """
enum Mode { FAST, EXACT };
template <int N, typename T, Mode M = FAST> __global__ void k(T* x) {}
template <class T> __global__ void guessed(T* x) {}
template <int N> void launch(float* x) {
    constexpr int twice = 2 * N;
    k<twice, float><<<1, 1>>>(x);
}
template __global__ void guessed<double>(double*);
__global__ void over(int* x) {}
__global__ void over(float* x, int n) {}
int main() { launch<8>(nullptr); }
"""


def test_template_arguments_come_from_launches_constants_and_instantiations() -> None:
    found = {name: tried for _, name, tried in kernel_expressions.expressions({"k.cu": SOURCE})}
    assert found["k"][0] == ("k<(2 * 8), float>", False)
    assert found["guessed"] == [("guessed<double>", False), ("guessed<float>", True)]
    assert found["over(float*, int)"][0] == ("static_cast<void (*)(float*, int)>(&over)", False)


def test_kernels_that_a_macro_of_a_header_declares() -> None:
    header = '#define CUXTIMER(...)\n#define KERNEL_DECLARE(name) extern "C" __global__ void name\n'
    source = 'KERNEL_DECLARE(a)(int* x) { CUXTIMER("a"); }\nKERNEL_DECLARE(b)(int* x) { CUXTIMER("b"); }\n'
    found = kernel_expressions.expressions({"k.cu": source, "h.h": header})
    assert found == [("k.cu", name, [(name, False)]) for name in "ab"]


def test_files_that_others_include_are_not_drawn(tmp_path: Path) -> None:
    (tmp_path / "main.cu").write_text('#include "part.cu"\n__global__ void k() {}\n')
    (tmp_path / "part.cu").write_text("__global__ void p(int* x) { x[0] = SIZE; }\n")
    (tmp_path / "host.cu").write_text("int main() {}\n")
    assert [file.name for file in third_party.drawn(tmp_path, 0, 0)] == ["main.cu"]


def test_refusals_have_a_class_and_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.cu").write_text(
        "__global__ void good(int* x) { x[0] = 1; }\n#ifdef NEVER\n__global__ void gone() {}\n#endif\n"
        "__global__ void bad(int* x) {\n  x[0] = absent;\n}\n"
    )
    records = {each["kernel"]: each for each in third_party.compiled(tmp_path / "k.cu", set(), ["emulator"], 0)}
    found = {name: record["emulator"] for name, record in records.items()}
    assert found["good"]["by"] is not None
    assert (found["bad"]["class"], found["bad"]["line"]) == ("undefined name", 6)
    assert found["gone"]["by"] is None
    named = [{"project": "p", "file": "k.cu", **record} for record in records.values()]
    assert "| all | 1 | 3 | 2 | 1 |" in third_party.table(named, ["emulator"])


RUNS = """
struct Pair { int a, b; };
__global__ void good(float* x, int n, Pair p, float4 scale, bool flag) {
  if (threadIdx.x < n && flag && p.a == 0) x[threadIdx.x + 128 * (blockIdx.x + 2 * blockIdx.y)] += scale.w;
}
__global__ void outside(int* x, int n) { x[n * n * n * n] = 1; }
__global__ void endless(volatile int* x) { while (x[0] == 0) x[1] = 1; }
__global__ void texture(cudaTextureObject_t t, float* x) { x[0] = tex1Dfetch<float>(t, 0); }
__global__ void tensor_core() { asm volatile("frobnicate.f32 %0;" : : "r"(1)); }
__global__ void reference(int& x) { x = 1; }
"""


def test_kernels_run_with_arguments_that_the_script_makes() -> None:
    module = cuda.load(RUNS)
    names = {
        "good": ("ran", ""),
        "outside": ("finding", "OutOfBounds"),
        "endless": ("time limit", "KernelTimeout"),
        "texture": ("finding", "no texture object"),
        "tensor_core": ("refused", "UnsupportedFeature"),
        "reference": ("refused", "ArgumentError"),
    }
    found = {name: kernel_runs.run(module[name], 0.5) for name in names}
    assert {name: (each["outcome"], each["class"]) for name, each in found.items()} == names


class _Broken:
    def __init__(self, build: Callable[[], object]) -> None:
        self.build = build


def test_defects_of_the_emulator_are_crashes() -> None:
    signalled = kernel_runs.run(_Broken(lambda: os.kill(os.getpid(), signal.SIGKILL)), 0.5)
    assert (signalled["outcome"], signalled["class"]) == ("crash", "SIGKILL")
    raised = kernel_runs.run(_Broken(lambda: int("x")), 0.5)
    assert (raised["outcome"], raised["class"]) == ("crash", "exception") and "ValueError" in raised["message"]
    unplaced = kernel_runs.of_findings([Finding(DataRace, "k", "somewhere")])
    assert (unplaced["outcome"], unplaced["class"]) == ("crash", "message without a line")
