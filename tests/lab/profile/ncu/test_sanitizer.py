"""The output of compute-sanitizer's tools is parsed into findings."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from warpwise import cuda
from warpwise.cli import cli
from warpwise.cuda.errors import BarrierDivergence, DataRace, MisalignedAccess, OutOfBounds, UninitializedRead
from warpwise.lab.errors import MeasurementError
from warpwise.lab.profile import sanitizer
from warpwise.lab.profile.ncu import CapturedLaunch
from warpwise.lab.profile.sanitizer import SanitizerError, parse, sanitize

RECORDED = Path(__file__).parent / "recorded"
SOURCE = """__global__ void scale(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    y[i] = 2 * x[i];
}
"""


def recorded(tool: str) -> str:
    return (RECORDED / f"{tool}.txt").read_text()


def test_memcheck_says_who_wrote_where_and_how_often() -> None:
    out, misaligned = parse(recorded("memcheck"), {"scale.cu": SOURCE})
    assert out.kind is OutOfBounds and out.count == 2 and out.kernel == "scale<float>"
    assert out.access is not None and out.access.what == "write"
    assert (out.access.block, out.access.thread) == ((3, 0, 0), (232, 0, 0))
    assert (out.access.line, out.access.text) == (4, "y[i] = 2 * x[i];")
    assert "1 bytes after the nearest allocation" in str(out)
    assert misaligned.kind is MisalignedAccess and misaligned.access is not None
    assert (misaligned.access.thread, misaligned.access.block) == ((1, 2, 3), (4, 5, 6))
    assert misaligned.kernel == "scale_tile" and misaligned.access.line == 5


def test_racecheck_names_both_lines_and_counts_hazards() -> None:
    text = "\n\nsum[t] = x[t];\nsum[t] += sum[t + 1];\nreturn;\nsum[0] = 1;\n"
    error, warning = parse(recorded("racecheck"), {"tree.cu": text})
    assert error.kind is DataRace and error.kernel == "tree" and error.count == 512
    for part in (
        "write at tree.cu:3:  sum[t] = x[t];",
        "read at tree.cu:4:  sum[t] += sum[t + 1];",
        "read at tree.cu:5",
    ):
        assert part in error.message
    assert not error.hint and "same value" in warning.hint and warning.count == 31


def test_initcheck_also_where_there_is_no_line() -> None:
    with_line, without = parse(recorded("initcheck"))
    assert with_line.kind is without.kind is UninitializedRead
    assert with_line.access is not None and with_line.access.line == 41
    assert without.kernel == "vectorAdd" and without.access is not None and without.access.line == 0


def test_synccheck() -> None:
    (found,) = parse(recorded("synccheck"))
    assert found.kind is BarrierDivergence and found.count == 2 and found.access is not None
    assert found.access.what == "barrier" and found.access.line == 3


def test_nothing_found() -> None:
    assert list(parse("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n")) == []


@pytest.fixture
def launch() -> CapturedLaunch:
    return CapturedLaunch(cuda.load(SOURCE)["scale"][1, 32], (torch.ones(32), cuda.out(torch.empty(32)), 32))


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compute-sanitizer that writes the recorded text of the tool it is asked for, and ends with 1."""
    program = tmp_path / "compute-sanitizer"
    program.write_text(
        "#!/bin/sh\n"
        "while [ $# -gt 0 ]; do case $1 in --tool) tool=$2;; --log-file) log=$2;; esac; shift; done\n"
        f'cp "{RECORDED}/$tool.txt" "$log"\necho "$PYTORCH_NO_CUDA_MEMORY_CACHING" > "{tmp_path}/caching"\nexit 1\n'
    )
    os.chmod(program, program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    return tmp_path


def test_each_tool_runs_and_is_reported(launch: CapturedLaunch, fake: Path) -> None:
    found = sanitize([launch])
    assert {tool: len(findings) for tool, findings in found.items()} == {
        "memcheck": 2,
        "racecheck": 2,
        "initcheck": 2,
        "synccheck": 1,
    }
    assert (fake / "caching").read_text().strip() == "1"


def test_a_run_without_a_summary_is_an_error(
    launch: CapturedLaunch, fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sanitizer, "TOOLS", ("leakcheck",))
    with pytest.raises(SanitizerError, match="leakcheck ended with exit status 1"):
        sanitize([launch], ["leakcheck"])


def test_an_unknown_tool(launch: CapturedLaunch) -> None:
    with pytest.raises(ValueError, match="memcheck, racecheck, initcheck, synccheck"):
        sanitize([launch], ["leakcheck"])


def test_without_a_gpu(launch: CapturedLaunch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(MeasurementError, match=r"--sanitizer.*no CUDA device"):
        sanitize([launch])


def test_without_the_program(launch: CapturedLaunch, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sanitizer.os, "access", lambda *args: False)
    with pytest.raises(SanitizerError, match="CUDA toolkit"):
        sanitize([launch])


def command(tmp_path: Path, *more: str) -> list[str]:
    source = tmp_path / "scale.cu"
    source.write_text(SOURCE)
    shape = ["--kernel", "scale", "--grid", "1", "--block", "32"]
    arguments = ["--arg", "x=f32[32]", "--arg", "y=out:f32[32]", "--arg", "n=32"]
    return ["check", str(source), *shape, *arguments, *more]


def test_the_command_prints_findings_and_fails(fake: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(
        cli, command(tmp_path, "--sanitizer", "memcheck", "--sanitizer", "synccheck"), standalone_mode=False
    )
    assert result.return_value == 1, result.output
    assert "OutOfBounds: scale<float>: Invalid __global__ write of size 4 bytes" in result.output
    assert "2 findings by memcheck (accesses outside of any allocation, or misaligned) in scale" in result.output
    assert "1 finding by synccheck" in result.output and "racecheck" not in result.output


def test_the_command_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    result = CliRunner().invoke(cli, command(tmp_path, "--sanitizer", "all"))
    assert result.exit_code == 1 and "no CUDA device" in result.output
    result = CliRunner().invoke(cli, command(tmp_path, "--sanitizer", "all", "--reference", "math:sqrt"))
    assert result.exit_code == 2 and "it cannot be combined with --sanitizer" in result.output
