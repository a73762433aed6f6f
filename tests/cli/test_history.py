"""``warpwise history``, and what ``climb`` writes to the store."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from tests.lab.store.samples import START, run, timed, verdict

import warpwise.ops  # noqa: F401 - registers square
from warpwise import cuda
from warpwise.cli import cli
from warpwise.cli.columns import Cell, Column, print_columns
from warpwise.cli.history import bars
from warpwise.lab.store import Store
from warpwise.operation import registry

H200 = Path(__file__).parents[2] / "benchmarks" / "results" / "h200"


def command(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, list(map(str, arguments)), standalone_mode=False)


def said(result: Result) -> str:
    message = result.exception.format_message() if hasattr(result.exception, "format_message") else ""
    return " ".join(f"{result.output} {message}".split())


@pytest.fixture
def filled() -> None:
    with Store.open() as store:
        store.record(run(minutes=0, commit="4f0c2d1aaaaa"), verdict(), timed(), timed("torch", 8e-5, kind="opponent"))
        store.record(run(minutes=60), timed(seconds=1.2e-4, minutes=60))
        store.record(run(minutes=120), timed(seconds=1.201e-4, minutes=120))
        store.record(run(minutes=180), timed(seconds=0.9e-4, minutes=180, dtype="float16", case="small"))
        store.record(run("matmul", 240, device="cpu: EPYC"), verdict("k01_loops", "wrong", 240, message="ragged: c[0]"))


@pytest.mark.usefixtures("filled")
def test_the_list_shows_what_changed() -> None:
    result = command("history")
    assert result.return_value == 0
    heading, *lines = result.output.splitlines()
    assert heading.split() == [
        "run",
        "when",
        "(UTC)",
        "op",
        "rung",
        "size",
        "dtype",
        "device",
        "commit",
        "verdict",
        "time",
        "±",
        "change",
    ]
    assert [line.split()[0] for line in lines] == ["r5", "r4", "r3", "r2", "r1"]
    assert "matmul k01_loops every case cpu ✗ wrong" in said(result)
    assert lines[1].split()[-3:] == ["µs", "1.0", "%"], "nothing like it was there before"
    assert "120.1 µs 1.0 % ≈ +0.1 %" in said(result)
    assert "120 µs 1.0 % +20.0 %" in said(result)
    assert "4f0c2d1aa ✓ 100 µs 1.0 %" in said(result)
    assert "torch" not in result.output


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    "arguments, runs",
    [
        (["softmax"], ["r4", "r3", "r2", "r1"]),
        (["matmul"], ["r5"]),
        (["matmul", "softmax", "--limit", "2"], ["r5", "r4"]),
        (["--rung", "k01_naive"], ["r4", "r3", "r2", "r1"]),
        (["softmax", "--rung", "k01"], ["r4", "r3", "r2", "r1"]),
        (["softmax", "--rung", "naive", "--dtype", "float16"], ["r4"]),
        (["--rung", "torch"], ["r1"]),
        (["--case", "small"], ["r4"]),
        (["--device", "h200", "--limit", "1"], ["r4"]),
        (["--device", "cpu"], ["r5"]),
        (["--since", "2026-03-01T15:00"], ["r5", "r4"]),
        (["matmul", "softmax", "--rung", "k01_loops"], ["r5"]),
        (["matmul", "softmax", "--dtype", "float16"], ["r4"]),
        (["--limit", "0", "--opponents"], ["r5", "r4", "r3", "r2", "r1", "r1"]),
    ],
)
def test_the_list_may_be_narrowed(arguments: list[str], runs: list[str]) -> None:
    result = command("history", *arguments, "--json")
    assert result.return_value == 0, said(result)
    assert [one["run"]["id"] for one in json.loads(result.output)] == runs


@pytest.mark.usefixtures("filled")
def test_json_holds_what_is_kept() -> None:
    newest, *_, oldest = json.loads(command("history", "softmax", "--case", "large", "--json").output)
    assert (newest["median_s"], newest["name"], newest["verdict"]) == (1.201e-4, "k01_naive", "right")
    assert newest["change"]["direction"] == "same"
    assert newest["change"]["before_run"] == "r2"
    assert newest["change"]["before_s"]["median"] == 1.2e-4
    assert oldest["change"] is None
    assert oldest["run"]["commit"] == "4f0c2d1aaaaa"


@pytest.mark.usefixtures("filled")
def test_a_rungs_times_are_drawn_as_bars() -> None:
    text = command("history", "softmax").output
    assert "medians, oldest first" in text
    assert "large(rows=64), float32  H200    ▁██" in text
    assert "100 µs → 120.1 µs" in text
    assert "medians" not in command("history").output


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=50))
def test_bars_rise_with_the_values(values: list[float]) -> None:
    drawn = bars(values)
    assert len(drawn) == len(values)
    ordered = sorted(zip(values, drawn, strict=True))
    assert [bar for _, bar in ordered] == sorted(drawn)
    assert ordered[0][1] == "▁"


def test_how_long_ago() -> None:
    now = datetime.now(timezone.utc)
    with Store.open() as store:
        for hours in (50, 2):
            minutes = (now - timedelta(hours=hours) - START).total_seconds() / 60
            store.record(run(minutes=minutes), timed(minutes=minutes))
    assert len(json.loads(command("history", "--since", "1d", "--json").output)) == 1
    assert len(json.loads(command("history", "--since", "1w", "--json").output)) == 2
    assert len(json.loads(command("history", "--since", "90m", "--json").output)) == 0


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    "arguments, words",
    [
        (["softmxa"], "no operation 'softmxa'; did you mean 'softmax'"),
        (["square"], "no measurement of 'square' in the store; `warpwise climb square`"),
        (["softmax", "--rung", "k01_naiv"], "no rung 'k01_naiv' in the store; did you mean 'k01_naive'?"),
        (["softmax", "--rung", "k77"], "no rung 'k77' in the store"),
        (["matmul", "softmax", "--rung", "k77"], "no rung 'k77' in the store"),
        (["--dtype", "float23"], "did you mean 'float"),
        (
            ["matmul", "--dtype", "float32"],
            "nothing was timed here, and a verdict holds for all verified sizes and dtypes",
        ),
        (["--case", "larg"], "did you mean 'large'?"),
        (["--device", "a100"], "nothing was measured on 'a100'; there are NVIDIA H200, cpu: EPYC"),
        (["--since", "yesterday"], "expected a date (2026-11-20, 2026-11-20T15:30) or an age"),
        (["--since", "99999999999w"], "before the first date"),
        (["--import"], "--import needs results files"),
        (["--import", "nowhere.json"], "nowhere.json"),
    ],
)
def test_bad_input_says_what_is_near(arguments: list[str], words: str) -> None:
    result = command("history", *arguments)
    assert words in said(result)
    assert result.exception.exit_code == 2


def test_an_empty_store_says_how_to_fill_it() -> None:
    result = command("history")
    assert result.return_value == 0
    assert "no such measurement in" in said(result)
    assert "`warpwise climb OP`" in said(result)


def test_recorded_results_are_brought_in_once() -> None:
    first = command("history", "--import", H200 / "square.json", H200 / "transpose.json")
    assert "r1, 76 measurements of square on NVIDIA H200" in said(first)
    assert "r2, 102 measurements of transpose" in said(first)
    again = command("history", "--import", H200 / "square.json")
    assert "is in the store already" in said(again)
    listed = command("history", "square", "--rung", "k03", "--case", "large", "--dtype", "float32")
    assert "510.4 µs" in listed.output
    assert "4,207 GB/s" in listed.output


def test_a_damaged_file_brings_nothing_in_and_another_kind_is_passed_over(tmp_path: Path) -> None:
    damaged, other = tmp_path / "damaged.json", tmp_path / "clocks.json"
    damaged.write_text('{"schema": 1, "points"')
    other.write_text('{"clocks": []}')
    assert "nothing was imported" in said(command("history", "--import", H200 / "square.json", damaged))
    assert "got other JSON; nothing was imported" in said(command("history", "--import", other))
    with Store.open() as store:
        assert store.runs() == []
    result = said(command("history", "--import", other, H200 / "square.json"))
    assert "skipped: " in result
    assert "r1, 76 measurements" in result


def test_a_climb_is_kept_unless_told_otherwise(own_store: Path) -> None:
    options = ["--device", "cpu", "--rung", "k04", "--dtype", "float32"]
    assert command("climb", "square", *options, "--no-store").return_value == 0
    assert not own_store.exists()
    assert command("climb", "square", *options).return_value == 0
    with Store.open() as store:
        (kept,) = store.runs()
        (one,) = store.measurements(kind="rung")
        (gradient,) = store.measurements(kind="gradient")
    assert (kept.op, kept.made_by, kept.finished is not None) == ("square", "climb", True)
    assert (gradient.name, gradient.verdict, gradient.timed) == ("gradient", "right", False)
    assert re.search(r"square +gradient +every case .* ✓", said(command("history", "square")))
    assert (one.name, one.verdict, one.language, one.timed) == ("k04_triton", "right", "triton", False)
    assert len(one.source) == 20


def test_a_climb_that_fails_before_its_first_verdict_leaves_no_run() -> None:
    result = command(
        "climb", "softmax", "--device", "cpu", "--rung", "k03", "--size", "rows=2,columns=7", "--attr", "dim=5"
    )
    assert "softmax: expected dim between -2 and 1, got 5" in said(result)
    with Store.open() as store:
        assert store.runs() == []


def test_without_a_compiler_a_climb_is_kept_as_untested(own_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def launch(output: torch.Tensor, x: torch.Tensor) -> None:
        raise cuda.MissingTool("install g++")

    honest = registry.get("square")
    rungs = (dataclasses.replace(honest.rungs[0], launch=launch),)
    monkeypatch.setitem(
        registry._OPS, "warpwise::square", dataclasses.replace(honest, rungs=rungs, default=lambda x: None)
    )
    done = command("climb", "square", "--device", "cpu", "--rung", "k01", "--dtype", "float32")
    assert done.return_value == 1
    assert "untested square k01" in said(done) and "install g++" in said(done)
    with Store.open() as store:
        (one,) = store.measurements(kind="rung")
    assert one.verdict == "untested"


@pytest.mark.parametrize(
    "arguments", [["climb", "square", "--device", "cpu"], ["history"], ["compare", "last~1", "last"]]
)
def test_a_newer_store_stops_a_command_before_it_begins(own_store: Path, arguments: list[str]) -> None:
    with Store.open() as store:
        store._connection.execute("PRAGMA user_version = 99")
    before = own_store.read_bytes()
    result = command(*arguments)
    assert "was made by a newer Warpwise (its schema is 99" in said(result)
    assert result.exception.exit_code == 2
    assert ("--no-store" in said(result)) == (arguments[0] == "climb")
    assert own_store.read_bytes() == before


def test_a_damaged_store_is_reported_and_the_list_goes_on(own_store: Path) -> None:
    own_store.parent.mkdir(parents=True)
    own_store.write_bytes(b"no database" * 1000)
    result = command("history")
    assert result.return_value == 0
    assert "is damaged" in said(result)
    assert "moved to runs.sqlite3.damaged-" in said(result)


def test_a_climb_goes_on_where_the_store_fails_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def record(self: Store, *arguments: object) -> None:
        from warpwise.lab.store import StoreError

        raise StoreError("the disk is full")

    monkeypatch.setattr(Store, "record", record)
    result = command("climb", "square", "--device", "cpu", "--rung", "k04", "--dtype", "float32")
    assert result.return_value == 0
    assert "right" in said(result)
    assert said(result).count("this climb was not stored completely: the disk is full") == 1


@pytest.mark.parametrize("name", ["measured_never", "thirdparty::measured_never"])
def test_an_operation_of_a_package_without_measurements(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("warpwise.cli.targets.known_ops", lambda: ["softmax", "thirdparty::measured_never"])
    assert f"no measurement of '{name}' in the store; `warpwise climb {name}`" in said(command("history", name))


@pytest.mark.parametrize("width, gone", [(200, []), (60, ["b"]), (26, ["b", "c"])])
def test_what_matters_least_goes_first(width: int, gone: list[str]) -> None:
    columns = [Column("a"), Column("b", spare=2), Column("c", spare=1), Column("d", right=True), Column("e")]
    file = io.StringIO()
    row = [Cell("a" * 10), Cell("b" * 30), Cell("c" * 20), Cell("µ" * 5), Cell("")]
    print_columns(Console(file=file, width=width), columns, [row, [Cell("x", "red") for _ in range(4)] + [Cell("")]])
    first, second, third = file.getvalue().splitlines()
    assert first.split() == [name for name in "abcd" if name not in gone]
    assert len(second) == len(third) == len(first)
    assert third.endswith("    x")
