"""Runs from climbs in progress and from their results files have the same measurements."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.lab import toys
from tests.lab.fakes import FakeTimer
from tests.lab.toys import broken, broken_when_large, quick, slow

from warpwise import lab, operation, ops  # noqa: F401 - importing ops registers the operations
from warpwise.cuda.source.includes import source_digest
from warpwise.lab import Roofline
from warpwise.lab.store import Recorder, Store, UnreadableResults, read_results, repository_state
from warpwise.lab.verify.verdict import case_to_json
from warpwise.operation import Gradient

RESULTS = (Path(__file__).parents[3] / "benchmarks" / "results" / "h200").glob("*.json")
H200 = [path for path in sorted(RESULTS) if {"schema", "points"} <= json.loads(path.read_text()).keys()]


def climbed(store: Store, *launches) -> tuple[lab.Ladder, Recorder]:
    op = toys.op(toys.AFFINE, *launches)
    recorder = Recorder(store, op, "cpu")
    timer = FakeTimer(slow=[4.0], quick=[1.0], torch=[2.0])
    ladder = lab.climb(
        op,
        device="cpu",
        dtypes=[torch.float32],
        compiled=False,
        timer=timer,
        progress=recorder,
        ceilings=lambda device, dtype: Roofline(bandwidth=1e9, flops=1e9, source="a test"),
    )
    recorder.finish(ladder)
    return ladder, recorder


def test_a_climb_is_kept_as_it_goes() -> None:
    with Store.open() as store:
        _, recorder = climbed(store, slow, broken, quick)
        (run,) = store.runs()
        assert run == recorder.run
        assert (run.op, run.made_by, run.torch) == ("affine", "climb", run.environment["torch"])
        assert run.device.startswith("cpu: ")
        assert run.finished is not None
        verdicts = {one.name: one for one in store.measurements(case="")}
        assert {name: one.verdict for name, one in verdicts.items()} == {
            "slow": "right",
            "broken": "wrong",
            "quick": "right",
        }
        assert "float32: " in verdicts["broken"].message
        times = {one.name: one for one in store.measurements(case="large")}
        assert {name: (one.median, one.kind) for name, one in times.items()} == {
            "slow": (4.0, "rung"),
            "quick": (1.0, "rung"),
            "torch": (2.0, "opponent"),
        }
        assert times["quick"].ratio.median == 2.0
        assert (times["quick"].sizes, times["quick"].dtype, times["quick"].mode) == ({"n": 8192}, "float32", "a list")
        assert times["quick"].percent == pytest.approx(100 * (2 * 4 * 8192) / 1e9)
        assert times["quick"].source == source_digest(Path(toys.__file__))
        assert times["quick"].language == "python"


def test_a_rung_found_wrong_at_the_timed_size_ends_as_wrong() -> None:
    with Store.open() as store:
        climbed(store, broken_when_large, quick)
        newest, first = store.measurements(name="broken_when_large", case="")
        assert (first.verdict, newest.verdict) == ("right", "wrong")
        assert "large(n=8192), float32" in newest.message
        (point,) = store.measurements(name="broken_when_large", case="large")
        assert (point.verdict, point.median, point.message) == ("wrong", None, "wrong at this size")


@pytest.mark.parametrize("factor, status", [(1.0, "right"), (1.001, "wrong")])
def test_the_verdict_on_the_gradient_is_stored(tmp_path: Path, factor: float, status: str) -> None:
    """y = 2 x + 1, so the gradient of x is 2 times that of y."""
    gradient = Gradient(lambda saved, grad: {"x": 2 * factor * grad})
    spec = replace(toys.AFFINE, schema=f"affine_{status}(Tensor x) -> Tensor", gradient=gradient)
    op = toys.op(spec, quick)
    with Store.open() as store:
        recorder = Recorder(store, op, "cpu")
        ladder = lab.climb(op, device="cpu", dtypes=[torch.float32], compiled=False, progress=recorder)
        (stored,) = store.measurements(kind="gradient")
        assert stored in [entry.measurement for entry in store.history()]
        ladder.save(tmp_path / "affine.json")
        (read,) = [one for one in read_results(tmp_path / "affine.json")[1] if one.kind == "gradient"]
    for one in (stored, read):
        assert (one.name, one.case, one.verdict, one.timed) == ("gradient", "", status, False)
        assert ("the gradient of x[0] is" in one.message) == (status == "wrong")


def test_there_are_recorded_results() -> None:
    assert len(H200) >= 14


def test_the_file_of_a_climb_holds_what_the_store_holds(tmp_path: Path) -> None:
    with Store.open() as store:
        ladder, _ = climbed(store, slow, broken, quick)
        ladder.save(tmp_path / "affine.json")
        _, from_file, _ = read_results(tmp_path / "affine.json")
        kept = sorted(store.measurements(), key=lambda one: one.id)

    def plain(one):
        return replace(one, id=0, run="", op="", device="", source="", taken=kept[0].taken)

    assert sorted(map(plain, from_file), key=str) == sorted(map(plain, kept), key=str)


@pytest.mark.parametrize("path", H200, ids=lambda path: path.stem)
def test_recorded_results_come_in_whole(path: Path) -> None:
    data = json.loads(path.read_text())
    run, measurements, origin = read_results(path)
    assert (run.op, run.device, run.started.isoformat()) == (data["op"], data["place"], data["environment"]["date"])
    assert run.driver == data["environment"]["driver"]
    times = {(one.name, one.case, one.dtype): one for one in measurements if one.case}
    entries = [(point, entry) for point in data["points"] for entry in point["entries"]]
    assert len(times) == len(entries), "no two of them are one thing"
    for point, entry in entries:
        one, timing = times[entry["name"], point["case"]["name"], point["dtype"]], entry["timing"]
        assert one.median == (timing["median_s"] if timing else None)
        assert one.gbps == pytest.approx(timing["gbps"]) if timing and timing["gbps"] else not one.timed
        assert one.percent == (pytest.approx(timing["percent"]) if timing and timing["percent"] else None)
    with Store.open() as store:
        store.add(run, measurements, origin)
        assert len(store.measurements()) == len(measurements)


@pytest.mark.parametrize("path", H200, ids=lambda path: path.stem)
def test_recorded_points_are_described_as_the_cases_of_their_operation(path: Path) -> None:
    """Sizes, attributes and layout of a recorded point are those of the case of the same name."""
    keys = ("sizes", "attributes", "layout")
    known = {case.name: case_to_json(case) for case in operation.get(path.stem).spec.sizes}
    recorded = [{"attributes": {}, **point["case"]} for point in json.loads(path.read_text())["points"]]
    assert recorded
    for case in recorded:
        assert [case[key] for key in keys] == [known[case["name"]][key] for key in keys]


@pytest.mark.parametrize(
    "text, words",
    [
        ("{", "got invalid JSON"),
        ("[1]", "got other JSON"),
        (
            '{"schema": 1, "op": "x", "device": {"name": "cpu"}, "environment": {}, "points": []}',
            "got a table of choices of `warpwise tune`",
        ),
        ('{"schema": 99, "points": []}', "expected a results file of schema 1, got schema 99"),
        ('{"schema": 1, "points": [], "op": "x"}', "incomplete: KeyError: 'environment'"),
        (
            '{"schema": 1, "points": [3], "op": "x", "place": "y", "rungs": [], "environment": {"date": "2026-01-01"}}',
            "incomplete",
        ),
    ],
)
def test_what_is_no_results_file(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(text)
    with pytest.raises(UnreadableResults, match="wrong.json") as caught:
        read_results(path)
    assert words in str(caught.value)


def test_the_commit_is_that_of_the_kernels_repository(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        named = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
        return subprocess.run(
            ["git", "-C", str(tmp_path), *named, *arguments], check=True, capture_output=True, text=True
        ).stdout.strip()

    kernel, other = tmp_path / "k01.cu", tmp_path / "notes.txt"
    kernel.write_text("// one\n")
    assert repository_state(kernel) == ("", False)
    git("init", "-q")
    git("add", "k01.cu")
    git("commit", "-qm", "one")
    assert repository_state(kernel) == (git("rev-parse", "HEAD"), False)
    other.write_text("not tracked")
    assert repository_state(kernel)[1] is False
    assert repository_state(other) == ("", False), "a file that git does not know is not at that commit"
    kernel.write_text("// two\n")
    assert repository_state(kernel)[1] is True
