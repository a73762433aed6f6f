"""``warpwise report``: the results that it collects, errors before the work, and a climb on a CPU, without times."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.lab.store.samples import run, timed, verdict

from warpwise.cli import cli
from warpwise.lab import report as pages
from warpwise.lab.store import Store
from warpwise.operation import registry

H200 = Path(__file__).parents[2] / "benchmarks" / "results" / "h200"
MINE = """
from pathlib import Path
from tests.lab.toys import AFFINE
import dataclasses
from warpwise.operation import Op, Rung, register

def double(output, x):
    output.copy_((2 * x.double() + 1).to(x.dtype))

SPEC = dataclasses.replace(AFFINE, schema="mine(Tensor x) -> Tensor")
register(Op(SPEC, (Rung("k01_mine", "a copy", "python", double, Path(__file__)),)))
"""


def command(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["report", *map(str, arguments)], standalone_mode=False)


def said(result: Result) -> str:
    message = result.exception.format_message() if hasattr(result.exception, "format_message") else ""
    return " ".join(f"{result.output} {message}".split())


@pytest.fixture(autouse=True)
def no_explanation(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Explaining takes seconds a rung: the names of the operations that it was asked for."""
    asked: list[str] = []

    def explained(ladders: Sequence[pages.LadderAtPoint], progress: Any) -> Iterator[tuple[str, dict[str, Any]]]:
        for ladder in ladders:
            asked.append(ladder.op.name)
            yield ladder.op.name, {}

    monkeypatch.setattr(pages, "explain_ladders", explained)
    return asked


def test_a_page_an_operation_and_an_index(tmp_path: Path, no_explanation: list[str]) -> None:
    result = command("square", "-o", tmp_path / "out", "--results", H200)
    assert result.return_value == 0, said(result)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["index.html", "square.html"]
    assert "square.html" in result.output and "on NVIDIA H200" in result.output
    assert no_explanation == ["square"]
    first = json.loads((H200 / "square.json").read_text())["rungs"][0]["name"]
    assert f'id="{first}"' in (tmp_path / "out" / "square.html").read_text()


def test_without_a_name_everything_that_is_recorded(tmp_path: Path, no_explanation: list[str]) -> None:
    kept = tmp_path / "results"
    kept.mkdir()
    for name in ("square", "vector_add"):
        shutil.copy(H200 / f"{name}.json", kept)
    result = command("-o", tmp_path / "out", "--results", kept, "--no-explain")
    assert result.return_value == 0, said(result)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "index.html",
        "square.html",
        "vector_add.html",
    ]
    assert no_explanation == []


def test_into_a_pipe_progress_is_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def explained(ladders: Sequence[pages.LadderAtPoint], progress: Any) -> Iterator[tuple[str, dict[str, Any]]]:
        for ladder in ladders:
            first = ladder.op.rungs[0].name
            assert first in ladder.verified
            progress(ladder.op.name, first, 1, len(ladder.op.rungs))
            yield ladder.op.name, {}

    monkeypatch.setattr(pages, "explain_ladders", explained)
    result = command("square", "-o", tmp_path / "out", "--results", H200)
    name, count = registry.get("square").rungs[0].name, len(registry.get("square").rungs)
    assert result.output.splitlines()[:2] == [f"square: explained {name} (1 of {count})", "drawing square"]


def test_one_file_and_one_device(tmp_path: Path) -> None:
    result = command("square", "-o", tmp_path, "--results", H200 / "square.json", "--device", "h200", "--no-explain")
    assert result.return_value == 0, said(result)
    result = command("square", "-o", tmp_path, "--results", H200 / "square.json", "--device", "A100", "--no-explain")
    assert "square: no results of a device whose name contains 'A100'; there are: NVIDIA H200" in said(result)


def test_the_store_is_where_a_newer_run_comes_from(tmp_path: Path) -> None:
    with Store.open() as store:
        store.record(
            run("square", 10**6, device="RTX 5090"),
            verdict("k01_thread_per_element"),
            timed("k01_thread_per_element", 7.77e-4),
        )
    result = command("square", "-o", tmp_path, "--no-explain")
    assert "on RTX 5090" in result.output, said(result)
    assert "777 µs" in (tmp_path / "square.html").read_text()


def test_a_users_own_file_climbed_here_shows_verdicts_and_no_time(tmp_path: Path, own_files: None) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    nothing = command(tmp_path / "mine.py", "-o", tmp_path / "out")
    advice = f"`warpwise climb {tmp_path / 'mine.py'}` or --climb makes them"
    assert f"mine: no recorded results; {advice}" in said(nothing)
    result = command(tmp_path / "mine.py", "--climb", "-o", tmp_path / "out")
    assert result.return_value == 0, said(result)
    text = (tmp_path / "out" / "mine.html").read_text()
    assert "Nothing was timed." in text and "✓ right" in text
    with Store.open() as store:
        assert [one.op for one in store.runs()] == ["mine"], "the climb is kept"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["sofmax"], "no operation 'sofmax'; did you mean 'softmax'"),
        (["square", "--results", "{tmp}/none"], "does not exist"),
        (["square", "--results", "{tmp}/empty"], "no results file in"),
        (
            ["square", "--results", "{tmp}/other.json"],
            "other.json: expected a results file of `warpwise climb --json`, got other JSON",
        ),
        (["square", "--results", "{tmp}/broken.json"], "broken.json: expected a results file"),
        (
            ["softmax", "--results", str(H200 / "square.json")],
            "softmax: no recorded results; `warpwise climb softmax` or --climb makes them",
        ),
    ],
)
def test_bad_input_is_named(tmp_path: Path, arguments: list[str], message: str) -> None:
    folder = tmp_path / "given"
    (folder / "empty").mkdir(parents=True)
    (folder / "other.json").write_text("{}")
    (folder / "broken.json").write_text("{")
    result = command(
        *(text.replace("{tmp}", str(folder)) for text in arguments), "-o", tmp_path / "out", "--no-explain"
    )
    assert message in said(result)
    assert not (tmp_path / "out" / "index.html").exists()


def test_a_folder_that_cannot_be_written_is_told_before_the_work(tmp_path: Path, no_explanation: list[str]) -> None:
    (tmp_path / "file").write_text("")
    result = command("square", "-o", tmp_path / "file" / "out", "--results", H200)
    assert "cannot be written" in said(result)
    assert no_explanation == []
    if os.geteuid() != 0:  # root writes everywhere
        (tmp_path / "locked").mkdir(mode=0o500)
        assert "cannot be written" in said(command("square", "-o", tmp_path / "locked", "--results", H200))


def test_without_the_library_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise pages.MissingLibrary("pip install 'warpwise[report]'")

    monkeypatch.setattr(pages, "require_library", missing)
    assert "pip install 'warpwise[report]'" in said(command("square", "-o", tmp_path / "out"))
    assert not (tmp_path / "out").exists()
