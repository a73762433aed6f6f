"""``warpwise profile``: rungs, functions and scripts, and the messages for invalid targets."""

from __future__ import annotations

import json
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from warpwise import operation
from warpwise.cli import cli
from warpwise.lab.profile import tools


def run(*words):
    """What the command said, in one line, and its exit code, as ``main`` gives them."""
    done = CliRunner().invoke(cli, ["profile", *map(str, words)], standalone_mode=False)
    if done.exception is not None and not isinstance(done.exception, click.ClickException):
        raise done.exception
    message = done.exception.format_message() if done.exception else ""
    code = done.exception.exit_code if done.exception else done.return_value
    return SimpleNamespace(output=" ".join(f"{done.output} {message}".split()), stdout=done.stdout, exit_code=code)


def names(path):
    return {event.get("name") for event in json.loads(path.read_text())["traceEvents"]}


def test_a_rung_is_emulated_and_named_in_the_trace(tmp_path):
    done = run("softmax:k03", "--size", "rows=3,columns=40", "--device", "cpu", "--trace", tmp_path / "t.json")
    assert done.exit_code == 0, done.output
    assert "softmax:k03_warp_shuffle" in done.output
    assert "emulated on the CPU" in done.output
    assert "perfetto" in done.output
    assert "softmax:k03_warp_shuffle" in names(tmp_path / "t.json")


def test_an_operation_stands_for_its_default_rung_and_all_for_every_rung():
    done = run("vector_add", "--device", "cpu", "--schedule", "0,1,1,1", "--json")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["steps"] == 1
    assert result["name"].startswith("vector_add:k0")
    every = json.loads(run("vector_add:all", "--device", "cpu", "--schedule", "0,1,1,1", "--json").stdout)
    ranged = [row["name"] for row in every["table"] if row["name"].startswith("vector_add:")]
    assert len(ranged) >= 2


def test_a_function_takes_arguments_by_name():
    done = run("torch:softmax", "--arg", "input=f32[8,16]", "--arg", "dim=-1", "--device", "cpu", "--sort", "name")
    assert done.exit_code == 0, done.output
    assert "aten::softmax" in done.output


def test_a_script_gets_what_follows_the_dashes(tmp_path):
    (tmp_path / "s.py").write_text("import sys, torch\ntorch.ones(int(sys.argv[1]))\nprint('made', sys.argv[1:])")
    done = run(tmp_path / "s.py", "--trace", tmp_path / "t.json", "--", "7", "--flag")
    assert done.exit_code == 0, done.output
    assert "made ['7', '--flag']" in done.output
    assert "aten::ones" in names(tmp_path / "t.json")


def test_a_script_that_fails_shows_its_traceback_and_what_ran(tmp_path):
    (tmp_path / "s.py").write_text("import torch\ntorch.ones(3)\nraise ArithmeticError('no')")
    done = run(tmp_path / "s.py")
    assert done.exit_code == 1
    assert "ArithmeticError: no" in done.output
    assert "aten::ones" in done.output


WRONG = [
    (("sofmax",), "did you mean softmax"),
    (("sofmax:k01",), "no operation and no module 'sofmax'; did you mean softmax"),
    (("softmax:k03_warp_shufle",), "did you mean k03_warp_shuffle"),
    (("torch:sofmax",), "torch has no 'sofmax'; did you mean softmax"),
    (("torch:float32",), "expected a function, got dtype"), (("softmax", "--dtype", "flot32"), "did you mean float32"),
    (("softmax", "--schedule", "1,1"), "expected wait,warm-up,active,repeat"),
    (("softmax", "--arg", "n=1"), "use --size and --attr for a rung"),
    (("softmax", "--trace", "/proc/no/t.json"), "cannot be written"),
    (("softmax", "--trace", "t.txt"), "expected a name that ends in"), (("nothing.py",), "no file nothing.py"),
    (("softmax.cu",), "`warpwise explain` takes CUDA files"),
    (("softmax", "extra"), "a script does, after --"), ((), "Missing argument 'TARGET'"),
    (("softmax:k05", "--device", "cpu", "--size", "rows=1,columns=40000"), "takes rows of up to"),
]  # fmt: skip


@pytest.mark.parametrize("words,said", WRONG, ids=[" ".join(words) or "nothing" for words, _ in WRONG])
def test_what_cannot_be_profiled_is_said(words, said):
    done = run(*words)
    assert done.exit_code in (1, 2)
    assert said in done.output


def test_without_a_size_the_chosen_case_is_named():
    done = run("softmax:k03", "--device", "cpu", "--schedule", "0,0,1,1")
    assert "float32: the largest test case, since timing sizes take long" in done.output


def test_attributes_are_part_of_the_size():
    size = ("--size", "rows=3,columns=40", "--device", "cpu")
    done = run("softmax:k03", *size, "--attr", "masked=true", "--schedule", "0,0,1,1")
    assert done.exit_code == 0, done.output
    assert "rows=3,columns=40,masked=true, float32" in done.output
    assert "no attribute 'colour'; there are dim, masked" in run("softmax:k03", *size, "--attr", "colour=1").output
    assert "applies to rungs; use --arg for a function" in run("math:sqrt", "--attr", "masked=true").output


def test_the_naive_clock_names_its_ways():
    done = run("--naive-clock", "vector_add", "--device", "cpu", "--json")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["name"] == "PyTorch's vector_add"
    assert len(result["readings"]) >= 5
    assert "a call is synchronous" in result["remark"]
    shown = run("--naive-clock", "vector_add", "--device", "cpu")
    assert shown.exit_code == 0 and shown.output.count("PyTorch's vector_add on cpu") == 1, shown.output


def test_a_tool_that_is_not_here_is_explained(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tools, "TOOLKIT", (str(tmp_path),))
    done = run("softmax", "--with", "nsys", "--report", tmp_path / "r")
    assert done.exit_code == 1
    assert "nsys is not installed here" in done.output


def test_a_rung_of_ones_own_file(tmp_path):
    path = tmp_path / "profiled.py"
    assert CliRunner().invoke(cli, ["new", "profiled", "-o", str(path)]).exit_code == 0
    done = run(f"{path}:k01", "--size", "n=300", "--device", "cpu")
    assert done.exit_code == 0, done.output
    assert "profiled:k01_thread_per_element" in done.output
    assert run(f"{path}:profiled:k03", "--size", "n=300", "--device", "cpu").exit_code == 0
    assert "did you mean k02_vectorised" in run(f"{path}:k02_vectorise").output
    assert "no such file" in run(f"{tmp_path / 'none.py'}:k01").output
    operation.unregister("profiled")
    assert "defines the operation profiled" in run(path).output
    operation.unregister("profiled")
