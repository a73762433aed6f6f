"""Nsight Systems and Nsight Compute: the command line, the child process, and the message if they are not installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from warpwise.lab.profile import ProfileError, Schedule, tools
from warpwise.lab.profile.tools import TOOLS, captured, command_line, run_under

STAND_IN = """#!{python}
import os, sys
named = next((a.partition("=")[2] for a in sys.argv if a.startswith("--output=")), None)
report = named or sys.argv[sys.argv.index("--export") + 1]
open(report, "w").write(os.environ["WARPWISE_NVTX"] + " " + sys.argv[-1])
{ending}
"""


def install(folder, monkeypatch, name, ending=""):
    path = folder / name
    path.write_text(STAND_IN.format(python=sys.executable, ending=ending))
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    return path


@pytest.mark.parametrize("name", ["nsys", "ncu"])
def test_the_child_runs_under_the_tool_with_its_ranges_on(tmp_path, monkeypatch, name):
    found = install(tmp_path, monkeypatch, name)
    result = run_under(name, tmp_path / "report", ["python", "child"])
    assert result.command[0] == str(found)
    assert result.path == tmp_path / f"report{TOOLS[name].ending}"
    assert result.path.read_text() == "1 child"
    assert (result.status, result.remark) == (0, "")


def test_only_marked_steps_are_captured_unless_the_whole_child_is_wanted():
    for name, mark in (("nsys", "--capture-range=cudaProfilerApi"), ("ncu", "--profile-from-start")):
        tool = TOOLS[name]
        assert mark in command_line(tool, Path("x"), Path("r"), ["child"])
        assert mark not in command_line(tool, Path("x"), Path("r"), ["child"], whole=True)
        assert command_line(tool, Path("x"), Path("r"), ["child", "a"])[-2:] == ["child", "a"]


def test_forbidden_counters_are_explained(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "ncu", "sys.stderr.write('==ERROR== ERR_NVGPUCTRPERM - no permission'); sys.exit(1)")
    result = run_under("ncu", tmp_path / "r", ["child"])
    assert result.status == 1
    assert "SYS_ADMIN" in result.remark


@pytest.mark.parametrize("name", ["nsys", "ncu"])
def test_a_tool_that_is_not_here_is_explained(tmp_path, monkeypatch, name):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tools, "TOOLKIT", (str(tmp_path),))
    with pytest.raises(ProfileError, match=f"{name} is not installed here. {TOOLS[name].title}.*To get it"):
        run_under(name, tmp_path / "r", ["child"])


def test_without_a_gpu_there_is_nothing_to_profile(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "ncu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ProfileError, match="no CUDA device here"):
        run_under("ncu", tmp_path / "r", ["child"])


def test_the_active_steps_lie_between_the_marks(monkeypatch):
    seen = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda.profiler, "start", lambda: seen.append("start"))
    monkeypatch.setattr(torch.cuda.profiler, "stop", lambda: seen.append("stop"))
    captured(lambda: seen.append("call"), Schedule(1, 1, 2, 1))
    assert seen == ["call", "call", "start", "call", "call", "stop"]
