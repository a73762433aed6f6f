"""``warpwise tune`` of a user's operation on the CPU: its output, its table, and its errors."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result

from warpwise import lab, operation
from warpwise.cli import cli
from warpwise.lab.tune import Progress
from warpwise.operation import choice
from warpwise.tuned import TunedPoint

SOURCE = '''
"""Twice a vector, in pieces."""

from pathlib import Path

import torch

from warpwise.operation import Case, Cost, Op, Output, Rung, Spec, Tables, register


def pieces(output, x, config=None):
    size = int(config or 1024)
    for start in range(0, x.shape[0], size):
        output[start : start + size] = 2 * x[start : start + size]


SPEC = Spec(
    schema="doubled(Tensor x) -> Tensor", summary="twice a vector", outputs={"output": Output()},
    inputs=lambda case, dtype, device, seed: {"x": torch.arange(case.sizes["n"], device=device).to(dtype)},
    reference=lambda x: 2 * x.double(), eager=lambda x: x.add(x).add(0), cost=lambda x: Cost(2 * x.nbytes),
    sizes=(Case("short", {"n": 512}), Case("long", {"n": 4096})),
)
RUNG = Rung(
    "k01_pieces", "piece by piece", "python", pieces, Path(__file__), devices=("cpu",),
    configs=lambda x: ("1024", "64") if x.shape[0] > 1024 else ("64",),
)
TABLES = Tables("doubled", None, lambda x: ("", {"n": x.shape[0]}))
register(Op(SPEC, (RUNG,), tables=TABLES))
'''


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WARPWISE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "doubled.py"
    path.write_text(SOURCE)
    yield path
    operation.unregister("doubled")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["tune", *map(str, arguments)], standalone_mode=False)


def said(result: Result) -> str:
    message = getattr(result.exception, "message", "") or ""
    return " ".join(f"{result.output} {message}".split())


def points(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text())["points"]


def test_a_tune_is_kept_in_the_cache_and_known_the_next_time(file, tmp_path):
    result = run(file, "--device", "cpu", "--budget", "0.05")
    assert result.return_value == 0, said(result)
    table = tmp_path / "cache" / "tuned" / "doubled" / "cpu.json"
    assert [point["sizes"] for point in points(table)] == [{"n": 512}, {"n": 4096}]
    assert [point["candidates"] for point in points(table)] == [1, 2]
    assert {name for point in points(table) for name in (point["winner"], point["rival"])} <= {
        "torch",
        "k01_pieces@1024",
        "k01_pieces@64",
    }
    assert "2 points measured; the table has 2" in said(result)
    assert "doubled does not use this table: on a CPU PyTorch computes unless a rung is named" in said(result)
    assert str(table) in said(result).replace(" ", "")
    again = run(file, "--device", "cpu", "--budget", "0.05")
    assert "0 points measured; the table has 2" in said(again)
    assert said(again).count("known") == 2
    assert "1 point measured" in said(run(file, "--device", "cpu", "--budget", "0.05", "--fresh", "--size", "short"))


def test_a_size_can_be_spelled_out_and_the_file_named(file, tmp_path):
    out = tmp_path / "here" / "table.json"
    result = run(file, "--device", "cpu", "--budget", "0.05", "--size", "n=300", "--dtype", "float32", "--out", out)
    assert result.return_value == 0, said(result)
    assert [(point["sizes"], point["dtype"]) for point in points(out)] == [({"n": 300}, "float32")]


def test_an_attribute_that_the_operation_lacks_is_refused(file):
    assert "doubled: no attribute 'bias'; it has none" in said(run(file, "--device", "cpu", "--attr", "bias=true"))


def test_ctrl_c_says_what_is_kept(file, monkeypatch):
    def stopped(op: Any, progress: Any, **options: Any) -> None:
        progress(Progress(1, 2, "short", point=TunedPoint("float32", "", {"n": 512}, "torch", 1e-6, "", None, 1)))
        raise KeyboardInterrupt

    monkeypatch.setattr(lab, "tune", stopped)
    result = run(file, "--device", "cpu")
    assert type(result.exception).__name__ == "Abort"
    assert "stopped after 1 new point, stored already; the same command continues" in said(result)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["sqare"], "no operation 'sqare'"),
        (["square", "--device", "cpu"], "square: cannot be tuned, because its Op has no tables"),
        (["square", "--device", "cpu"], "`warpwise ops` marks tunable operations"),
        pytest.param(
            ["matmul"],
            "matmul: there is no GPU here, and PyTorch computes all calls on a CPU",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
        ),
        (["matmul", "--device", "cpu", "--rung", "k20"], "no rung can be timed on cpu: kernels are emulated there"),
        (["matmul", "--device", "cpu", "--rung", "k99"], "no rung 'k99'"),
        (["matmul", "--device", "cpu", "--size", "enormous"], "no size 'enormous'"),
        (["matmul", "--device", "cpu", "--layout", "sideways"], "no layout 'sideways'; there are nn, nt, tn, tt"),
        (["matmul", "--device", "cpu", "--dtype", "float7"], "no dtype 'float7'"),
        (["matmul", "--device", "mars"], "expected 'cpu', 'cuda' or 'cuda:1'"),
    ],
)
def test_bad_input_says_what_there_is(arguments, words):
    result = run(*arguments)
    assert words in said(result)
    assert result.exception


SCRIPT = """
import runpy, sys
import torch
from warpwise import operation
from warpwise.operation import choice

choice.TABLE_DEVICES = {"cuda", "cpu"}
runpy.run_path(sys.argv[2])
doubled = operation.get("doubled")
assert torch.equal(doubled(torch.ones(300)), 2 * torch.ones(300))
print("ran with", sys.argv[1:], choice.online.budget_s, choice.online.total_s)
"""


@pytest.fixture
def script(file, tmp_path, monkeypatch):
    monkeypatch.setattr(choice, "TABLE_DEVICES", choice.TABLE_DEVICES)
    monkeypatch.setattr(choice, "online", None)
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def test_a_script_runs_with_online_tuning(file, script, tmp_path):
    result = run("--online", "--budget", "1", "--total", "7", script, "--lr=3", file, "--out", "x")
    assert result.exception is None, said(result)
    assert f"ran with ['--lr=3', '{file}', '--out', 'x'] 1.0 7.0" in result.output
    assert "doubled float32 n=300" in said(result)
    assert "1 shape measured" in said(result)
    assert [point["sizes"] for point in points(tmp_path / "cache" / "tuned" / "doubled" / "cpu.json")] == [{"n": 300}]
    assert choice.online.stopped
    assert "WARPWISE_TUNE" not in os.environ


@pytest.mark.parametrize("ending, code", [("", 0), ("sys.exit(3)", 3), ("sys.exit('wrong')", 1)])
def test_the_exit_code_of_a_script_is_that_of_the_command(script, ending, code):
    script.write_text(f"import sys\n{ending}\n")
    result = run("--online", script)
    assert (result.exit_code, choice.online.stopped) == (code, True)
    assert "0 shapes measured" in said(result)
    if not torch.cuda.is_available():
        assert "0 shapes measured: there is no GPU here, and calls on CPU tensors are never measured" in said(result)
        assert "the choices are in" not in said(result)


def test_a_script_without_an_operation_is_told_of_online_tuning(script):
    script.write_text("x = 1\n")
    result = said(run(script))
    assert f"to run it and tune the calls that it makes: warpwise tune --online {script}" in result
    assert "--kernel" not in result


def test_where_nothing_is_measured_no_file_is_named(file, tmp_path):
    result = run(file, "--device", "cpu", "--size", "n=0")
    assert "nothing to be timed where a size is 0" in said(result)
    assert "nothing was measured, so no table was written" in said(result)
    assert "written to" not in said(result) and not (tmp_path / "cache" / "tuned").exists()


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--online", "nowhere.py"], "no file nowhere.py"),
        (["--online", "--dtype", "float32", "nowhere.py"], "--online takes only --budget and --total"),
        (["nowhere.py", "--online"], "--online: expected before SCRIPT, as in: warpwise tune --online SCRIPT"),
        (["matmul", "more"], "more: expected only with --online"),
        (["matmul", "--total", "3"], "--total: expected only with --online"),
    ],
)
def test_online_says_what_it_expects(arguments, words):
    assert words in said(run(*arguments))
