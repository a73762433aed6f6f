"""``warpwise compare``: its output and exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests import commands
from tests.lab.store.samples import run, timed, verdict

from warpwise.cli import cli
from warpwise.lab.store import Store

ROOT = Path(__file__).parents[2]
H200 = ROOT / "benchmarks" / "results" / "h200"


def command(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["compare", *map(str, arguments)], standalone_mode=False)


def said(result: Result) -> str:
    message = result.exception.format_message() if hasattr(result.exception, "format_message") else ""
    return " ".join(f"{result.output} {message}".split())


@pytest.fixture
def store():
    with Store.open() as opened:
        opened.record(
            run(minutes=0, commit="4f0c2d1aaaaa", torch="2.10"),
            verdict(),
            timed(half=1e-3),
            timed("k02_tiled", 5e-5, half=1e-3),
            timed("k03_gone"),
            timed("torch", 8e-5, kind="opponent", half=1e-3),
        )
        opened.record(
            run(minutes=9, commit="91ab2d1aaaaa", dirty=True, torch="2.11"),
            verdict(minutes=9),
            timed(seconds=1.05e-4, half=1e-3, minutes=9),
            timed("k02_tiled", 4e-5, half=1e-3, minutes=9),
            timed("k04_new", minutes=9),
            timed("torch", 8e-5, kind="opponent", half=1e-3, minutes=9),
        )
        yield opened


def scaled(name: str, factors: dict[str, float], folder: Path) -> Path:
    """A recorded results file with some rungs' times multiplied."""
    data = json.loads((H200 / f"{name}.json").read_text())
    for point in data["points"]:
        for entry in point["entries"]:
            for key in ("median_s", "low_s", "high_s"):
                if entry["timing"] and entry["timing"][key]:
                    entry["timing"][key] *= factors.get(entry["name"], 1)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(data))
    return path


@pytest.mark.usefixtures("store")
def test_slower_faster_new_and_vanished_are_told() -> None:
    result = command("last~1", "last")
    assert result.return_value == 0
    text = said(result)
    assert "softmax k01_naive large float32 H200 100 µs 105 µs × 1.050 1.049 – 1.051 slower" in text
    assert "softmax k02_tiled large float32 H200 50 µs 40 µs × 0.800 0.799 – 0.801 faster" in text
    assert "2 times of rungs in both: 1 slower, 1 faster, 0 within noise" in text
    assert "new, only in B: softmax: k04_new, large(rows=64), float32" in text
    assert "missing, only in A: softmax: k03_gone" in text
    assert "torch: 2.10 in A, 2.11 in B" in text
    assert "at 4f0c2d1aa" in text
    assert "at 91ab2d1aa+" in text
    assert "within noise" not in "".join(line for line in result.output.splitlines() if "torch" in line)
    assert "torch large" in said(command("last~1", "last", "--all"))


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    "arguments, code",
    [
        (["r1", "r2", "--fail-slower", "3%"], 1),
        (["r1", "r2", "--fail-slower", "3"], 1),
        (["r1", "r2", "--fail-slower", "4.8%"], 1),
        (["r1", "r2", "--fail-slower", "4.95 %"], 0),
        (["r1", "r2", "--fail-slower", "10%"], 0),
        (["r2", "r1", "--fail-slower", "10%"], 1),
        (["r1", "r1", "--fail-slower", "0%"], 0),
        (["r1", "r2", "--fail-slower", "3%", "--noise", "7%"], 0),
        (["4f0c", "91ab", "--fail-slower", "3%"], 1),
        (["r1", "r2"], 0),
        (["r1", "r2", "--fail-slower", "3%", "--json"], 1),
    ],
)
def test_the_gate(arguments: list[str], code: int) -> None:
    result = command(*arguments)
    assert result.return_value == code, said(result)


def test_a_gate_that_holds_nothing_does_not_pass(store: Store) -> None:
    store.record(run("matmul", 20), verdict("k01_loops", minutes=20))
    result = command("r1", "r3", "--fail-slower", "3%")
    assert result.exception.exit_code == 2
    assert "no rung was timed in both A and B" in said(result)
    result = command("r1", "r3")
    assert result.return_value == 0
    assert "nothing was timed in both: `warpwise climb` times rungs on a GPU" in said(result)


def test_a_rung_that_became_wrong_fails_the_gate(store: Store) -> None:
    store.record(run(minutes=30), verdict(status="wrong", minutes=30, message="ragged: y[3] is 0, expected 1"))
    result = command("r1", "r3", "--fail-slower", "50%")
    assert result.return_value == 1
    assert "wrong now: softmax k01_naive: ragged: y[3] is 0, expected 1" in said(result)
    assert "failed: 0 of 0 times slower by more than 50 % beyond noise, 1 wrong" in said(result)


def test_other_devices_and_sizes_are_said_and_not_compared(store: Store) -> None:
    store.record(run(minutes=40, device="NVIDIA L4"), timed(seconds=9e-4, minutes=40))
    assert (
        "not compared: softmax: k01_naive, large(rows=64), float32: measured on NVIDIA H200, then on NVIDIA L4"
        in said(command("r1", "r3"))
    )
    store.record(run(minutes=50), timed(seconds=9e-4, minutes=50, sizes={"rows": 128}))
    assert "large was {'rows': 64}, and is {'rows': 128} now" in said(command("r1", "r4"))
    assert "2 devices" not in said(command("last~1", "last", "--device", "h200"))


def test_opponents_that_moved_make_the_machine_suspect(tmp_path: Path) -> None:
    path = scaled("square", {"torch": 1.04, "torch.compile": 1.04, "k03_vectorised": 1.04}, tmp_path)
    result = command(H200 / "square.json", path, "--fail-slower", "3%")
    assert result.return_value == 1
    assert "24 of 24 times of opponents changed too" in said(result)


def test_results_files_and_folders_need_no_store(tmp_path: Path, own_store: Path) -> None:
    path = scaled("square", {"k02_grid_stride": 1.05}, tmp_path)
    result = command(H200, path, "--op", "square", "--fail-slower", "3%")
    assert result.return_value == 1
    assert "12 of 48 times slower by more than 3 % beyond noise" in said(result)
    assert command(H200, H200, "--fail-slower", "0%").return_value == 0
    assert not own_store.exists()


def test_the_operation_of_another_package_has_its_short_name_too(store: Store) -> None:
    for minutes in (20, 30):
        store.record(run("mine::f", minutes=minutes), timed(minutes=minutes, seconds=1e-4 + minutes * 1e-6))
    assert "k01_naive" in said(command("r3", "r4", "--op", "f"))
    assert "no operation 'g' in the store" in said(command("r3", "r4", "--op", "g"))


@pytest.mark.usefixtures("store")
def test_json_holds_ratios_and_both_sides() -> None:
    data = json.loads(command("r1", "r2", "--json").output)
    assert data["schema"] == 1
    assert [one["id"] for one in data["b"]["runs"]] == ["r2"]
    slower = next(one for one in data["changes"] if one["change"] == "slower")
    assert slower["after"]["name"] == "k01_naive"
    assert slower["ratio"]["median"] == pytest.approx(1.05)
    assert slower["ratio"]["low"] < slower["ratio"]["median"] < slower["ratio"]["high"]
    assert [one["name"] for one in data["new"]] == ["k04_new"]
    assert [one["name"] for one in data["vanished"]] == ["k03_gone"]


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    "arguments, words",
    [
        (["r7", "r1"], "for A: r7: there is no such run"),
        (["r1", "best"], "for B: 'best': expected a run's id (r12), last, last~1, a git commit"),
        (["r1", "nowhere.json"], "nowhere.json: no such file"),
        (["r1", str(ROOT / "docs")], "docs: no results file of `warpwise climb --json` is in it"),
        (["r1", "last~5"], "last~5: there is no such run"),
        (["r1", "r2", "--op", "softmx"], "no operation 'softmx' in the store; did you mean 'softmax'?"),
        (["r1", "r2", "--device", "b200"], "nothing was measured on 'b200'"),
        (["r1", "r2", "--fail-slower", "three"], "'three': expected a percentage such as 3%"),
        (["r1"], "Missing argument 'B'"),
    ],
)
def test_bad_input_ends_with_2(arguments: list[str], words: str) -> None:
    result = command(*arguments)
    assert words in said(result)
    assert result.exception.exit_code == 2


@pytest.mark.usefixtures("store")
def test_outside_a_repository_it_is_said_that_no_branch_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "is in no git repository, so no branch, tag or HEAD~1 is known"
    assert words not in said(command("no_such_branch", "last"))
    monkeypatch.chdir(tmp_path)
    assert f"{tmp_path} {words}" in said(command("HEAD", "last"))


def test_exit_codes_reach_the_shell(tmp_path: Path) -> None:
    path = scaled("square", {"k02_grid_stride": 1.05}, tmp_path)
    told = ["compare", str(H200 / "square.json"), str(path), "--fail-slower", "3%"]
    assert commands.command(*told).returncode == 1
