"""``warpwise check``: its output and exit status."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
import pytest
from tests.cli.checking import check, said

EXAMPLES = Path(__file__).parents[2] / "examples"
SCALE = """
__global__ void scale(const float* x, float alpha, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = alpha * x[i];
}
template <int BLOCK>
__global__ void fill(int* y) { y[blockIdx.x * BLOCK + threadIdx.x] = VALUE; }
"""
REFERENCE = """
def right(x, alpha, y, n):
    return alpha * x

def wrong(x, alpha, y, n):
    result = alpha * x
    result[7] += 1
    return {"y": result}

def misshapen(x, alpha, y, n):
    return x[:5]
"""
ARGUMENTS = ["--arg", "n=1000", "--arg", "x=f32[1000]", "--arg", "alpha=2", "--arg", "y=out:f32[1000]"]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "reference_of_check.py").write_text(REFERENCE)
    (tmp_path / "scale.cu").write_text(SCALE)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "scale.cu"


def test_a_right_kernel_has_no_finding(source: Path) -> None:
    result = check(source, "--kernel", "scale", "--grid", "4", "--block", "256", *ARGUMENTS)
    assert result.return_value == 0
    assert "no finding in scale, without --reference the results are not verified" in said(result)


@pytest.mark.parametrize(
    "function, code, words",
    [
        ("right", 0, "equals the reference"),
        ("wrong", 1, "1 of 1,000 elements differ"),
        ("misshapen", 1, "the reference has shape (5,), the output (1000,)"),
    ],
)
def test_a_reference_is_compared(source: Path, function: str, code: int, words: str) -> None:
    reference = f"reference_of_check:{function}"
    result = check(source, "--kernel", "scale", "--grid", 4, "--block", 256, *ARGUMENTS, "--reference", reference)
    assert result.return_value == code
    assert words in said(result)


def test_a_line_number_is_not_an_emoji(tmp_path: Path) -> None:
    (tmp_path / "hundred.cu").write_text("\n" * 99 + "__global__ void k(float* y) { y[32 + threadIdx.x] = 1; }\n")
    result = check(tmp_path / "hundred.cu", "--kernel", "k", "--grid", 1, "--block", 32, "--arg", "y=f32[32]")
    assert result.return_value == 1 and "hundred.cu:100: " in said(result)


ADD_TO = """
__constant__ float factor[2];
__constant__ int first;
__global__ void add_to(const float* x, float* sums, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= first && i < n) atomicAdd(sums + i % 2, factor[i % 2] * x[i]);
}
"""
ADD_TO_REFERENCE = """
def sums(x, sums, n):
    sums[0] += 1000 * x[4::2].sum()
    sums[1] += 1001 * x[5::2].sum()
    return sums
"""


@pytest.mark.parametrize("first, code", [("4", 0), ("5", 1)])
def test_a_kernel_that_adds_has_a_reference_and_constants_have_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, code: int
) -> None:
    (tmp_path / "add_to.cu").write_text(ADD_TO)
    (tmp_path / "reference_of_sums.py").write_text(ADD_TO_REFERENCE)
    np.save(tmp_path / "factor.npy", np.float32([1000, 1001]))
    monkeypatch.chdir(tmp_path)
    launch = ("--kernel", "add_to", "--grid", "1", "--block", "32", "--reference", "reference_of_sums:sums")
    given = ("--arg", "x=ones:f32[30]", "--arg", "sums=inout:arange:f32[2]", "--arg", "n=30")
    done = check("add_to.cu", *launch, *given, "--constant", "factor=@factor.npy", "--constant", f"first={first}")
    assert done.return_value == code, said(done)
    assert ("equals the reference" if code == 0 else "sums[0] is 12000, expected 13000") in said(done)


WRONG = """
#include <cuda_fp16.h>
__global__ void shifted(const float* in, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    y[(i + 1) % n] = in[i];
  }
}
__global__ void counted(const int* in, int* y) { atomicAdd(&y[in[threadIdx.x] % 2], 1); }
__global__ void dot(const half* in, half* y, int n) {
  half sum = __float2half(0.f);
  for (int i = 0; i < n; i++) sum = __hadd(sum, in[i]);
  *y = sum;
}
"""
WRONG_REFERENCE = """
def copy(in_, y, n): return in_
def twos(in_, y): return 0 * y + 2
def total(in_, y, n): return in_.double().sum().reshape(1)
def nothing(in_, y, n): pass
def other(in_, y, n): return {"z": in_}
"""
SHIFTED = ("--kernel", "shifted", "--grid", "2", "--block", "32", "--arg", "in=f32[40]", "--arg", "y=out:f32[40]")
COUNTED = (
    "--kernel",
    "counted",
    "--grid",
    "1",
    "--block",
    "32",
    "--arg",
    "in=i32[32]",
    "--arg",
    "y=inout:zeros:i32[2]",
)
DOT = ("--kernel", "dot", "--grid", "1", "--block", "1", "--arg", "in=ones:f16[4000]", "--arg", "y=out:f16[1]")


@pytest.mark.parametrize(
    "launch, function, words",
    [
        ((*SHIFTED, "--arg", "n=40"), "copy", "all expected values are there, at other places"),
        (
            (*SHIFTED, "--arg", "n=40"),
            "copy",
            "last write by block (1, 0, 0) thread (7, 0, 0) at wrong.cu:6:",
        ),
        (COUNTED, "twos", "last atomic by block (0, 0, 0) thread ("),
        (
            (*DOT, "--arg", "n=4000"),
            "total",
            "write by block (0, 0, 0) thread (0, 0, 0) at wrong.cu:13: *y = sum;",
        ),
        ((*SHIFTED, "--arg", "n=40"), "nothing", "the reference returned None; it must return the expected y"),
        ((*SHIFTED, "--arg", "n=40"), "other", "the reference returned a dict without y"),
    ],
)
def test_a_wrong_result_names_the_line_that_wrote_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launch: tuple[str, ...], function: str, words: str
) -> None:
    (tmp_path / "wrong.cu").write_text(WRONG)
    (tmp_path / "reference_of_wrong.py").write_text(WRONG_REFERENCE)
    monkeypatch.chdir(tmp_path)
    done = check("wrong.cu", *launch, "--reference", f"reference_of_wrong:{function}")
    assert words in said(done)
    assert done.return_value == 1 or isinstance(done.exception, click.UsageError)


@pytest.mark.parametrize("terms, is_noted", [(4, False), (64, True)])
def test_an_error_of_several_roundings_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terms: int, is_noted: bool
) -> None:
    (tmp_path / "wrong.cu").write_text(WRONG)
    (tmp_path / "reference_of_wrong.py").write_text(WRONG_REFERENCE)
    np.save(tmp_path / "in.npy", np.full(terms, 1.01, np.float16))
    monkeypatch.chdir(tmp_path)
    launch = ("--kernel", "dot", "--grid", 1, "--block", 1, "--arg", "in=@in.npy", "--arg", "y=out:f16[1]")
    done = check("wrong.cu", *launch, "--arg", f"n={terms}", "--reference", "reference_of_wrong:total")
    assert done.return_value == 0 and "equals the reference" in said(done)
    assert ("Is a sum accumulated in float16? Accumulate in float32" in said(done)) == is_noted


@pytest.mark.parametrize(
    "options",
    [("--sanitizer", "all"), ("--reference", "math:sin"), ("--grid", "4"), ("--arg", "n=3"), ("--shared", "8")],
)
def test_a_rung_takes_no_options_of_a_launch(options: tuple[str | int, ...]) -> None:
    done = check("transpose:k02", *options)
    assert isinstance(done.exception, click.UsageError) and "a rung has its own cases and reference" in said(done)


SUMS = """
__global__ void sums(const float* x, float* y) {
  extern __shared__ float part[];
  part[threadIdx.x] = x[threadIdx.x];
  atomicAdd(y, part[threadIdx.x]);
}
"""


@pytest.mark.parametrize(
    "options, words",
    [
        (("--arg", "y=inout:zeros:f32[1]"), "or, in the shell, --shared BYTES"),
        (("--arg", "y=out:f32[1]", "--shared", "128"), "an atomic needs a start value: fill the array first"),
    ],
)
def test_findings_of_a_forgotten_option_name_it(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    (tmp_path / "sums.cu").write_text(SUMS)
    done = check(tmp_path / "sums.cu", "--kernel", "sums", "--grid", 1, "--block", 32, "--arg", "x=f32[32]", *options)
    assert done.return_value == 1 and words in said(done)


def test_a_cuda_file_without_options_lists_its_kernels(source: Path) -> None:
    assert "the file declares scale(const float* x, float alpha, float* y, int n); fill(int* y)" in said(check(source))


def test_the_values_of_arguments_are_documented() -> None:
    text = check("--help").output
    for form in ("x=zeros:f32[100]", "ones:", "arange:", "out:f32[100]", "inout:zeros:i32[64]", "@w.npy"):
        assert form in text


def test_templates_and_macros(source: Path) -> None:
    result = check(
        source, "--kernel", "fill<32>", "--grid", "3", "--block", "32", "--arg", "y=out:i32[96]", "--define", "VALUE=7"
    )
    assert result.return_value == 0


EXPECTED = [
    (
        "broken_guard.cu",
        "add",
        "4",
        "256",
        ["a=f32[1000]", "b=f32[1000]", "c=out:f32[1000]", "n=1000"],
        ["OutOfBounds", "a[1000]", "block (3, 0, 0) thread (232, 0, 0)", "broken_guard.cu:4", "c[i] = a[i] + b[i];"],
    ),
    (
        "broken_barrier.cu",
        "block_sum",
        "2",
        "256",
        ["x=f32[512]", "sums=out:f32[2]"],
        ["DataRace", "partial", "broken_barrier.cu:8", "conflicts with"],
    ),
    (
        "float_for_int.cu",
        "scale",
        "4",
        "256",
        ["x=f32[1000]", "alpha=2", "n=1000.0"],
        ["ArgumentError", "'n'", "int", "1000.0"],
    ),
]


@pytest.mark.parametrize("file, kernel, grid, block, arguments, words", EXPECTED)
def test_the_examples_are_found_out(
    file: str, kernel: str, grid: str, block: str, arguments: list[str], words: list[str]
) -> None:
    given = [part for argument in arguments for part in ("--arg", argument)]
    result = check(EXAMPLES / file, "--kernel", kernel, "--grid", grid, "--block", block, *given)
    assert result.return_value == 1
    for word in words:
        assert word in said(result)


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"--kernel": "scal"}, "did you mean 'scale'"),
        ({"--grid": "0"}, "is the problem size 0?"),
        ({"--block": "2048"}, "sm_90 allows 1,024"),
        ({"--shared": "999999"}, "shared"),
        ({"--target": "sm_1"}, "sm_1"),
    ],
)
def test_a_launch_that_cannot_be(source: Path, changes: dict[str, str], words: str) -> None:
    options = {"--kernel": "scale", "--grid": "4", "--block": "256", **changes}
    result = check(source, *(part for pair in options.items() for part in pair), *ARGUMENTS)
    assert result.return_value == 1 or result.exception
    assert words in said(result)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (ARGUMENTS[:-2], "no --arg for y"),
        ([*ARGUMENTS, "--arg", "m=3"], "no parameter 'm'"),
        ([*ARGUMENTS, "--arg", "n=3"], "n=… is given twice"),
        ([*ARGUMENTS, "--reference", "nowhere"], "MODULE:FUNCTION"),
        ([*ARGUMENTS, "--reference", "nowhere_at_all:f"], "No module named"),
        (
            [*ARGUMENTS, "--reference", "math:sqrt"],
            "the reference, called with x, alpha, y, n by name, raised TypeError",
        ),
        ([*ARGUMENTS[:2], "--arg", "x=f32[99999999999]"], "does not fit into memory"),
    ],
)
def test_arguments_that_do_not_fit(source: Path, arguments: list[str], words: str) -> None:
    result = check(source, "--kernel", "scale", "--grid", "4", "--block", "256", *arguments)
    assert words in said(result)
    assert result.exception


def test_nan_gives_the_origin_and_the_special_values_of_the_arguments(source: Path) -> None:
    x = np.ones(1000, np.float32)
    x[3], x[7] = 1e30, np.nan
    np.save("x.npy", x)
    arguments = ["--arg", "n=1000", "--arg", "x=@x.npy", "--arg", "alpha=1e10", "--arg", "y=out:f32[1000]"]
    result = check(source, "--kernel", "scale", "--grid", "4", "--block", "256", *arguments, "--nan")
    assert result.return_value == 1
    assert "before the launch: x: of 1,000 elements 1 NaN, the first at [7]" in said(result)
    assert "SpecialValue: scale: an infinity arises: 1e+10 * 1.00000002e+30 = inf" in said(result)
    assert "by block (0, 0, 0) thread (3, 0, 0) at scale.cu:4: if (i < n) y[i] = alpha * x[i];" in said(result)
    assert "after the launch: y: of 1,000 elements 1 NaN, the first at [7]; 1 infinite, the first at [3]" in said(
        result
    )


def test_nan_is_not_combined_with_sanitizer(source: Path) -> None:
    result = check(
        source, "--kernel", "scale", "--grid", "4", "--block", "256", *ARGUMENTS, "--nan", "--sanitizer", "all"
    )
    assert "--nan runs on the CPU: it cannot be combined with --sanitizer" in said(result)


def test_fidelity_lists_the_executed_instructions(source: Path) -> None:
    source.write_text(SCALE.replace("alpha * x[i]", "__expf(alpha * x[i])"))
    result = check(source, "--kernel", "scale", "--grid", "4", "--block", "256", *ARGUMENTS, "--fidelity")
    assert result.return_value == 0
    text = said(result)
    assert "scale: machine code of sm_90" in text and "approximate MUFU.EX2" in text
    assert "exact" in text and "unsupported" not in text
