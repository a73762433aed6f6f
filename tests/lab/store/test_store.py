"""Stored measurements are read back unchanged, found quickly, and neither confused nor duplicated."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.lab.store.samples import START, run, timed, verdict
from tests.sampled import examples

from warpwise.lab.store import Measurement, Run, Store, StoreError, store_path
from warpwise.lab.timing.samples import Clock
from warpwise.lab.timing.stats import Interval

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
SECONDS = st.none() | st.floats(1e-9, 1e3)
MOMENTS = st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1), timezones=st.just(timezone.utc))


@st.composite
def measurements(draw: st.DrawFn) -> Measurement:
    ratio = draw(st.none() | st.builds(Interval, *[st.floats(0.01, 100)] * 3))
    clock = draw(st.none() | st.builds(Clock, *[st.floats(100, 3000)] * 3))
    return Measurement(
        draw(TEXT),
        draw(st.sampled_from(["right", "wrong", "untested"])),
        draw(MOMENTS),
        draw(st.sampled_from(["rung", "opponent"])),
        draw(TEXT),
        draw(TEXT),
        draw(st.dictionaries(TEXT, st.integers(0, 2**40), max_size=3)),
        draw(TEXT),
        draw(TEXT),
        draw(TEXT),
        draw(TEXT),
        draw(SECONDS),
        draw(SECONDS),
        draw(SECONDS),
        draw(st.integers(0, 5000)),
        draw(TEXT),
        draw(st.none() | st.integers(0, 2**50)),
        draw(st.none() | st.integers(0, 2**62)),
        draw(SECONDS),
        draw(TEXT),
        ratio,
        clock,
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(TEXT),
        draw(st.dictionaries(TEXT, st.floats(0, 1e15), max_size=3)),
    )


@st.composite
def runs(draw: st.DrawFn) -> Run:
    texts = [draw(TEXT) for _ in range(6)]
    told = draw(st.dictionaries(TEXT, st.integers() | TEXT | st.floats(allow_nan=False), max_size=3))
    return Run(
        draw(TEXT), draw(TEXT), draw(MOMENTS), *texts, draw(st.booleans()), draw(TEXT), told, draw(st.none() | MOMENTS)
    )


@given(runs(), st.lists(measurements(), max_size=4))
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_kept_comes_back_as_it_was(own_store: Path, given_run: Run, given: list[Measurement]) -> None:
    with Store.open() as store:
        kept = store.record(given_run, *given)
        assert store.run(kept.id) == kept == replace(given_run, id=kept.id)
        found = sorted(store.measurements(run=kept.id), key=lambda one: one.id)
        wanted = [
            replace(one, op=given_run.op, device=given_run.device, run=kept.id, id=back.id)
            for one, back in zip(given, found, strict=True)
        ]
        assert found == wanted


def test_the_store_lies_among_data_and_not_in_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WARPWISE_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert store_path() == tmp_path / "warpwise" / "runs.sqlite3"
    monkeypatch.delenv("XDG_DATA_HOME")
    assert store_path() == Path.home() / ".local" / "share" / "warpwise" / "runs.sqlite3"
    monkeypatch.setenv("WARPWISE_STORE", str(tmp_path))
    assert store_path() == tmp_path / "runs.sqlite3"
    monkeypatch.setenv("WARPWISE_STORE", str(tmp_path / "mine.db"))
    assert store_path() == tmp_path / "mine.db"


def test_runs_are_found_by_what_they_are() -> None:
    with Store.open() as store:
        first = store.record(run("softmax", 0, commit="abc123"))
        second = store.record(run("matmul", 10, commit="abd456"))
        third = store.record(run("softmax", 20, device="NVIDIA L4"))
        assert [one.id for one in store.runs()] == [third.id, second.id, first.id] == ["r3", "r2", "r1"]
        assert store.runs("softmax") == [third, first]
        assert store.runs(device="NVIDIA L4") == [third]
        assert store.runs(commit="ab") == [second, first]
        assert store.runs(commit="abc") == [first]
        assert store.runs(since=START + timedelta(minutes=10)) == [third, second]
        assert store.runs(until=START + timedelta(minutes=10)) == [first]
        assert store.runs(limit=1) == [third]
        assert store.run("r9") is None
        assert store.run("; DROP TABLE runs") is None
        assert store.names("op") == []
        assert first.finished is None
        assert store.finish(first).finished is not None
        assert store.run("r1").finished is not None


def test_history_puts_the_time_before_beside_each_time() -> None:
    with Store.open() as store:
        first = store.record(run(minutes=0), verdict(), timed(seconds=1e-4), timed("k02_tiled", 9e-5))
        store.record(run(minutes=1, device="NVIDIA L4"), timed(seconds=8e-4, minutes=1))
        store.record(run(minutes=2), timed(seconds=7e-4, minutes=2, sizes={"rows": 65}))
        store.record(run(minutes=3), timed(seconds=6e-4, minutes=3, mode="graph"))
        store.record(run(minutes=4), verdict(status="wrong", minutes=4), timed(seconds=5e-5, minutes=4))
        newest, *rest = store.history(name="k01_naive", device="NVIDIA H200", limit=2)
        assert [one.measurement.verdict for one in rest] == ["right"]
        assert newest.measurement.verdict == "wrong", "a verdict over all cases that is not right is not left out"
        (known,) = rest
        assert known.before.median == 1e-4, "other sizes, devices and ways of timing are other things"
        assert known.before_run == first.id
        oldest = store.history()[-2:]
        assert [one.measurement.name for one in oldest] == ["k01_naive", "k02_tiled"], "in the order of their run"
        assert oldest[0].measurement.timed, "its verdict over all cases, which is right, says nothing more"
        assert oldest[0].before is None


def test_opponents_stand_aside_unless_asked_for() -> None:
    with Store.open() as store:
        store.record(run(), timed(), timed("torch", 5e-5, kind="opponent"))
        assert [one.measurement.name for one in store.history()] == ["k01_naive"]
        assert [one.measurement.name for one in store.history(kind=None)] == ["k01_naive", "torch"]
        assert store.best("softmax").name == "k01_naive"
        assert store.best("softmax", "torch").median == 5e-5


def test_best_and_last_are_right_and_timed() -> None:
    with Store.open() as store:
        store.record(run(), timed(seconds=2e-4), timed("k02_tiled", 1e-4))
        store.record(
            run(minutes=1), timed(seconds=3e-4, minutes=1), timed("k03_wrong", 1e-6, minutes=1, verdict="wrong")
        )
        store.record(run(minutes=2), verdict(minutes=2), replace(timed(minutes=2), median=None, message="void"))
        assert store.best("softmax", "k01_naive", "large", "float32", "NVIDIA H200").median == 2e-4
        assert store.best("softmax").name == "k02_tiled"
        assert store.last("softmax", "k01_naive").median == 3e-4
        assert store.best("softmax", "k01_naive", "small") is None
        assert store.last("nothing") is None


def test_a_run_from_a_file_comes_in_once() -> None:
    with Store.open() as store:
        assert store.add(run(), [timed()], "digest").id == "r1"
        assert store.add(run(), [timed()], "digest") is None
        assert len(store.measurements()) == 1


def test_what_fails_halfway_leaves_nothing() -> None:
    with Store.open() as store:
        unfit = replace(timed(), sizes={"rows": object()})
        with pytest.raises(TypeError):
            store.record(run(), timed(), unfit)
        assert store.runs() == []
        assert store.measurements() == []
        store.record(run(), timed())
        assert len(store.measurements()) == 1


def test_derived_rates() -> None:
    one = timed(seconds=1e-3, bytes=2_000_000_000, flops=10**12, floor=5e-4)
    assert (one.gbps, one.tflops, one.percent) == pytest.approx((2000, 1000, 50))
    assert timed().gbps is None
    void = replace(one, median=None)
    assert (void.gbps, void.interval, void.timed) == (None, None, False)


@pytest.mark.parametrize(
    "arguments, index",
    [
        ({}, "runs_by_start"),
        ({"op": "softmax"}, "runs_by_op (op=?)"),
        ({"op": "softmax", "since": START}, "runs_by_op (op=? AND started>?)"),
        ({"op": "softmax", "name": "k01_naive"}, "measurements_by_run (run=? AND name=?)"),
        ({"limit": 40}, "measurements_by_what (op=? AND name=? AND case=? AND dtype=? AND device=? AND taken<?)"),
    ],
)
def test_lists_are_made_from_indexes(arguments: dict[str, object], index: str) -> None:
    with Store.open() as store:
        store.record(run(), timed())
        seen: list[str] = []
        store._connection.set_trace_callback(seen.append)
        store.history(**arguments)
        store._connection.set_trace_callback(None)
        plan = "\n".join(row[3] for row in store._connection.execute(f"EXPLAIN QUERY PLAN {seen[0]}"))
        assert index in plan
        scanned = [line for line in plan.splitlines() if line.startswith("SCAN") and "INDEX" not in line]
        assert scanned == [], plan
        assert "TEMP B-TREE FOR ORDER BY" not in plan, "everything would be sorted before the first line is there"


def test_a_place_that_cannot_be_made_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPWISE_STORE", "/dev/null/runs.sqlite3")
    with pytest.raises(StoreError, match="/dev/null/runs.sqlite3 cannot be created.*WARPWISE_STORE"):
        Store.open()


def test_a_full_disk_is_an_error_that_says_what_to_do(own_store: Path) -> None:
    with Store.open() as store:
        kept = store.record(run(), timed())
        (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match="full.*check the disk space"):
            store.record(kept, *(timed(message="x" * 2000) for _ in range(50)))
        assert len(store.measurements()) == 1
    assert sqlite3.connect(own_store).execute("SELECT count(*) FROM measurements").fetchone() == (1,)
