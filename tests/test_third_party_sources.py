"""``benchmarks/third_party.py``: which kernels of a folder are counted, with which template arguments."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import kernel_expressions, third_party

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
