"""``warpwise explain``: its output, the files that it writes, and its exit status."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result

from warpwise import cuda
from warpwise.cli import cli
from warpwise.cli import measured as beside
from warpwise.cuda.errors import Finding
from warpwise.lab.explain.model.hardware import hardware
from warpwise.lab.profile import ncu

SCALE = """
__global__ void scale(const float* x, float alpha, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = alpha * x[8 * i];
}
__global__ void beyond(float* y) { y[threadIdx.x + 1] = 0; }
"""
LAUNCH = ["--kernel", "scale", "--grid", "4", "--block", "256"]
ARGUMENTS = ["--arg", "n=1000", "--arg", "x=f32[8000]", "--arg", "alpha=2", "--arg", "y=out:f32[1000]"]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "scale.cu").write_text(SCALE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path / "scale.cu"


def explain(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["explain", *map(str, arguments)], standalone_mode=False)


def said(result: Result) -> str:
    """What was printed and, if it ended in an error of the command line, its message; in one line."""
    message = getattr(result.exception, "message", "") or ""
    return " ".join(f"{result.output} {message}".split())


def test_a_kernel_of_a_file(source: Path) -> None:
    result = explain(source, *LAUNCH, *ARGUMENTS)
    assert result.return_value == 0, said(result)
    text = said(result)
    assert (
        f"predicted on one {hardware('sm_90').name}, limited by launch" in text
        and "agree: 1,000 elements of 'y'" in text
    )
    assert "/scale.cu" not in text, "of the folder of another test, whose machine code is kept"
    assert "scale.cu:4, one warp's load: global memory" in text and "32 sectors where 4 would be ideal (8×)" in text


def test_a_copy_of_a_file_in_another_folder(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("first", "second"):
        (source.parent / folder).mkdir()
        (source.parent / folder / "copied.cu").write_text(SCALE)
        monkeypatch.chdir(source.parent / folder)
        result = explain("copied.cu", *LAUNCH, *ARGUMENTS)
        assert "copied.cu:4" in said(result) and "/copied.cu" not in said(result), said(result)


def test_a_triton_kernel_of_a_python_file(tmp_path: Path) -> None:
    (tmp_path / "kernels_of_explain.py").write_text("""
import triton
import triton.language as tl

@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + 8 * i, mask=i < n) * 2, mask=i < n)
""")
    given = ["--arg", "n=1000", "--arg", "x=f32[8000]", "--arg", "y=out:f32[1000]", "--arg", "BLOCK=256"]
    path = tmp_path / "kernels_of_explain.py"
    result = explain(path, "--kernel", "scale", "--grid", "4", *given, "--arg", "num_warps=2")
    assert result.return_value == 0, said(result)
    assert "block 64" in said(result) and "agree: 1,000 elements of 'y'" in said(result)
    assert "uncoalesced loads kernels_of_explain.py:8" in said(result)


def test_a_line_a_picture_and_the_counters(source: Path) -> None:
    result = explain(source, *LAUNCH, *ARGUMENTS, "--line", "4", "--html", "picture.html", "--json", "counters.json")
    assert result.return_value == 0, said(result)
    page = Path("picture.html").read_text()
    assert '<header class="ww-explain">n=1000, x=f32[8000], alpha=2, y=out:f32[1000]</header>' in page
    assert page.startswith("<!DOCTYPE html>") and "y[i] = alpha * x[8 * i];" in page and "<svg" in page
    (launch,) = json.loads(Path("counters.json").read_text())
    assert launch["kernel"] == "scale" and launch["metrics"]["launch__grid_size"] == 4
    assert "picture.html" in said(result) and "counters.json" in said(result)


def test_a_wrong_kernel_is_not_explained(source: Path) -> None:
    result = explain(source, "--kernel", "beyond", "--grid", "1", "--block", "32", "--arg", "y=f32[32]")
    assert result.return_value == 1
    assert "OutOfBounds" in said(result) and "y[32]" in said(result) and "predicted" not in said(result)


def test_a_rung_at_a_size(source: Path) -> None:
    result = explain("softmax:k03", "--size", "rows=8,columns=100", "--dtype", "float16", "--all-lines")
    assert result.return_value == 0, said(result)
    assert "softmax k03_warp_shuffle, float16, seed 0: rows=8, columns=100" in said(result)
    assert "softmax_warp_shuffle<__half>" in said(result) and "agree: 800 elements" in said(result)


def test_sampled_and_trusted(source: Path) -> None:
    arguments = ["--arg", "n=100000", "--arg", "x=f32[800000]", "--arg", "alpha=2", "--arg", "y=out:f32[100000]"]
    result = explain(
        source, "--kernel", "scale", "--grid", "391", "--block", "256", *arguments, "--blocks", "8", "--trusted"
    )
    assert result.return_value == 0, said(result)
    assert "/scale.cu" not in said(result)
    assert "of 391 blocks" in said(result) and "was not checked:" in said(result)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["scale.cu"], "a launch needs --kernel, --grid, --block; missing: --kernel, --grid, --block"),
        (["scale.cu", "--grid", "1", "--block", "32"], "missing: --kernel; the file declares scale"),
        (["nowhere.cu", *LAUNCH], "no file 'nowhere.cu'"),
        (["softmax"], "expected softmax:RUNG; there are k01_thread_per_row"),
        (["softmax:k03", "--kernel", "x", "--grid", "3"], "softmax:k03 is an OP:RUNG: --kernel, --grid are for a FILE"),
        (["scale.cu", *LAUNCH, *ARGUMENTS, "--dtype", "f32"], "scale.cu is a FILE: --dtype is for an OP:RUNG"),
        (["softmax:k99"], "softmax: no rung 'k99'; there are k01_thread_per_row"),
        (["nonsense:k01"], "no operation 'nonsense'"),
        (["softmax:k03", "--dtype", "int8"], "no dtype 'int8'; there are float32"),
        (["softmax:k03", "--size", "huge"], "no size 'huge'"),
        (["softmax:k03", "--attr", "colour=1"], "no attribute 'colour'; there are dim, masked"),
        (["matmul:k02", "--size", "m=8,n=8,k=8"], "launches no GPU kernel"),
        (["matmul:k01"], "it is written in Python: choose a rung with a GPU kernel"),
        (["scale.cu", *LAUNCH, *ARGUMENTS, "--target", "sm_20"], "no profile for target"),
        (["scale.cu", *LAUNCH, *ARGUMENTS, "--line", "1"], "no machine code for line 1"),
        (["scale.cu", *LAUNCH, *ARGUMENTS, "--blocks", "none"], "expected a number of blocks, or all"),
        (["scale.cu", *LAUNCH, *ARGUMENTS, "--html", "nowhere/x.html"], "cannot be written"),
    ],
)
def test_what_makes_no_sense_is_said(source: Path, arguments: list[str], message: str) -> None:
    result = explain(*arguments)
    assert result.exception is not None and message in said(result), said(result)


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what is missing on a machine without a GPU")
def test_measuring_needs_a_gpu_and_says_so_first(source: Path) -> None:
    result = explain(source, *LAUNCH, *ARGUMENTS, "--ncu")
    assert "PyTorch finds no CUDA device here" in said(result) and "predicted" not in said(result)


def test_measured_counters_stand_beside_the_executed_ones(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sectors = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"

    def measure(launches: list[ncu.Launch]) -> list[ncu.Measured]:
        assert [launch.expression for launch in launches] == ["scale"]
        return [
            ncu.Measured(
                "scale",
                (4, 1, 1),
                (256, 1, 1),
                {sectors: 1000.0, "launch__registers_per_thread": 16, "nobody_computes.sum": 1},
            )
        ]

    monkeypatch.setattr(beside, "require_gpu", lambda: None)
    monkeypatch.setattr(importlib.import_module("warpwise.cli.explain"), "require_gpu", lambda: None)
    monkeypatch.setattr(beside, "measure", measure)
    result = explain(source, *LAUNCH, *ARGUMENTS, "--ncu")
    assert result.return_value == 0, said(result)
    assert f"{sectors} 1,000 1,000 equal" in said(result) and "nobody_computes" not in said(result)


def test_differences_in_percent() -> None:
    assert beside.rows({"a": 1.0, "b": 0.0, "c": 2.0}, {"a": 1.0, "b": 0.0}) == [("a", 1.0, 1.0)]
    assert beside._difference(110.0, 100.0) == "+10.0 %" and beside._difference(5.0, 0.0) == "only executed"


@pytest.mark.parametrize(
    "error, words",
    [(cuda.KernelTimeout, "this size is too large for a CPU (--size)"), (cuda.OutOfBounds, "the kernel is wrong")],
)
def test_a_check_that_takes_too_long_is_no_proof_of_an_error(monkeypatch, error, words) -> None:
    finding = Finding(error, "scale", "a message")

    def fails(*args: object, **options: object) -> None:
        raise finding.error()

    monkeypatch.setattr("warpwise.cli.explain.explain_rung", fails)
    result = explain("square:k01")
    assert result.return_value == 1 and words in said(result)
    assert ("wrong" in said(result)) == (error is cuda.OutOfBounds)
