"""What counts as faster, slower, new, vanished, unlike and broken."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lab.store.samples import START, run, timed, verdict

from warpwise.lab.store import Store, compare
from warpwise.lab.store.comparison import direction_of, ratio_of
from warpwise.lab.store.selection import UnknownSelection, moment, select
from warpwise.lab.timing.stats import Interval

CLEAN, EARLIER = "4f0c2d1aaaaabbbbbccccc", "91ab2d1aaaaabbbbbccccc"


def of(measurement, device="NVIDIA H200", op="softmax"):
    return replace(measurement, op=op, device=device)


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    middle = draw(st.floats(1e-6, 1))
    return Interval(middle, middle / draw(st.floats(1, 3)), middle * draw(st.floats(1, 3)))


@given(intervals(), intervals())
def test_the_ratios_interval_holds_its_median_and_turns_over_with_it(one: Interval, other: Interval) -> None:
    ratio, inverse = ratio_of(one, other), ratio_of(other, one)
    assert ratio.low <= ratio.median * (1 + 1e-12) and ratio.median <= ratio.high * (1 + 1e-12)
    assert (inverse.low, inverse.median, inverse.high) == pytest.approx(
        (1 / ratio.high, 1 / ratio.median, 1 / ratio.low), rel=1e-9
    )
    widest = (one.low / other.high, one.high / other.low)
    assert widest[0] * (1 - 1e-12) <= ratio.low and ratio.high <= widest[1] * (1 + 1e-12)


@given(intervals(), intervals(), st.floats(0, 0.1))
def test_a_change_is_beyond_the_noise_of_both(one: Interval, other: Interval, noise: float) -> None:
    direction = direction_of(one, other, noise)
    apart = one.low > other.high or one.high < other.low
    ratio = ratio_of(one, other)
    assert (direction == "slower") == (apart and ratio.low > 1 + noise)
    assert direction == "same" or apart
    turned = {"slower": "faster", "faster": "slower", "same": "same"}[direction]
    assert direction_of(other, one, noise) == turned or math.isclose(ratio.low, 1 + noise, rel_tol=1e-9)


def test_known_ratios() -> None:
    ratio = ratio_of(Interval(2.0, 1.9, 2.1), Interval(1.0, 1.0, 1.0))
    assert (ratio.low, ratio.median, ratio.high) == pytest.approx((1.9, 2.0, 2.1))
    widened = ratio_of(Interval(1.0, 0.97, 1.03), Interval(1.0, 0.96, 1.04))
    assert widened.high == pytest.approx(1.0513, abs=2e-3), "3 % and 4 % make 5 %"


@pytest.mark.parametrize(
    "seconds, half, direction",
    [
        (1.2e-4, 0.01, "slower"),
        (0.8e-4, 0.01, "faster"),
        (1.015e-4, 0.01, "same"),
        (1.2e-4, 0.2, "same"),
        (1.004e-4, 1e-5, "same"),
    ],
)
def test_directions(seconds: float, half: float, direction: str) -> None:
    compared = compare([of(timed(half=min(half, 0.01)))], [of(timed(seconds=seconds, half=half, minutes=1))])
    (change,) = compared.changes
    assert change.direction == direction
    assert compared.new == compared.vanished == compared.unlike == compared.broken == ()


def test_slower_by_means_the_intervals_lower_end() -> None:
    (change,) = compare([of(timed(half=1e-3))], [of(timed(seconds=1.05e-4, half=1e-3))]).changes
    assert change.slower_by(3)
    assert change.slower_by(4.8)
    assert not change.slower_by(4.9)
    assert not change.slower_by(6)


def test_what_is_in_one_alone_and_what_is_not_alike() -> None:
    before = [
        of(timed()),
        of(timed("k02_gone")),
        of(timed("k03_sizes")),
        of(timed("k04_graph")),
        of(timed("k05_void")),
        of(verdict()),
    ]
    void = replace(timed("k05_void"), median=None, message="impossible: faster than the memory")
    after = [
        of(timed()),
        of(timed("k06_new")),
        of(timed("k03_sizes", sizes={"rows": 65})),
        of(timed("k04_graph", mode="graph")),
        of(void),
        of(verdict()),
    ]
    compared = compare(before, after)
    assert [one.name for one in compared.new] == ["k06_new"]
    assert [one.name for one in compared.vanished] == ["k02_gone"]
    assert [(one.after.name, one.reason) for one in compared.unlike] == [
        ("k03_sizes", "large was {'rows': 64}, and is {'rows': 65} now"),
        ("k04_graph", "timed by events, and by graph now"),
        ("k05_void", "no time now: impossible: faster than the memory"),
    ]
    assert [one.after.name for one in compared.changes] == ["k01_naive"]


def test_another_device_is_no_change_of_the_rung() -> None:
    compared = compare([of(timed())], [of(timed(seconds=5e-4), "NVIDIA L4")])
    assert [one.reason for one in compared.unlike] == ["measured on NVIDIA H200, then on NVIDIA L4"]
    assert compared.changes == compared.new == compared.vanished == ()
    shared = compare([of(timed()), of(timed("k02_tiled"))], [of(timed()), of(timed("k02_tiled"), "NVIDIA L4")])
    assert [one.device for one in shared.new] == ["NVIDIA L4"], "the H200 is in both: nothing moved"


def test_a_rung_that_was_right_and_is_wrong_is_broken() -> None:
    compared = compare([of(verdict()), of(timed())], [of(verdict(status="wrong", message="ragged: y[3] is 0"))])
    assert [one.reason for one in compared.broken] == ["ragged: y[3] is 0"]
    assert compare([of(verdict(status="wrong"))], [of(verdict(status="wrong"))]).broken == ()
    assert compare([of(verdict(status="wrong"))], [of(verdict())]).broken == ()


def test_a_gradient_that_was_right_and_is_wrong_is_broken() -> None:
    right = replace(verdict(), name="gradient", kind="gradient")
    compared = compare([of(right)], [of(replace(right, verdict="wrong", message="a call: the gradient of x[0] is 3"))])
    assert [(one.after.name, one.reason) for one in compared.broken] == [
        ("gradient", "a call: the gradient of x[0] is 3")
    ]
    assert compared.rungs == []


def test_opponents_that_changed_are_drift_and_no_news_of_ours() -> None:
    before = [of(timed()), of(timed("torch", kind="opponent"))]
    after = [of(timed(seconds=1.2e-4)), of(timed("torch", 1.2e-4, kind="opponent"))]
    compared = compare(before, after)
    assert [one.after.name for one in compared.drift] == ["torch"]
    assert [one.after.name for one in compared.slower()] == ["k01_naive"]


def test_the_newest_measurement_of_a_thing_counts() -> None:
    older, newer = of(timed(seconds=9e-4)), of(timed(seconds=1e-4, minutes=5))
    (change,) = compare([newer, older], [of(timed(minutes=9))]).changes
    assert change.before is newer
    assert change.direction == "same"


@pytest.fixture
def store():
    with Store.open() as opened:
        first = opened.record(run(minutes=0, commit=EARLIER), timed(seconds=3e-4))
        opened.record(run("matmul", 1, commit=EARLIER), timed(seconds=9e-4, minutes=1))
        opened.record(run(minutes=2, commit=CLEAN), timed(seconds=2e-4, minutes=2), timed("k02_tiled", minutes=2))
        opened.record(run(minutes=3, commit=CLEAN, dirty=True), timed(seconds=1e-4, minutes=3))
        opened.record(run(minutes=1440, device="NVIDIA L4"), timed(seconds=7e-4, minutes=1440))
        assert first.id == "r1"
        yield opened


@pytest.mark.parametrize(
    "text, runs",
    [
        ("r1", ["r1"]),
        ("last", ["r2", "r4", "r5"]),
        ("last~1", ["r3"]),
        ("last~2", ["r1"]),
        ("2026-03-01", ["r2", "r3", "r4"]),
        ("2026-03-01T12:02", ["r2", "r3"]),
        ("2026-03-02", ["r2", "r3", "r4", "r5"]),
        ("4f0c2d1", ["r3"]),
        ("91ab", ["r1", "r2"]),
        (EARLIER, ["r1", "r2"]),
    ],
)
def test_selections(store: Store, text: str, runs: list[str]) -> None:
    assert sorted(one.id for one in select(store, text).runs) == runs


def test_a_selection_may_be_narrowed(store: Store) -> None:
    assert [one.id for one in select(store, "last", ["matmul"]).runs] == ["r2"]
    assert [one.id for one in select(store, "last", device="NVIDIA L4").runs] == ["r5"]
    assert {one.run for one in select(store, "2026-03-01", ["softmax"]).measurements} == {"r3", "r4"}


@pytest.mark.parametrize(
    "text, words",
    [
        ("r99", "r99: there is no such run"),
        ("last~9", "there is no such run: `warpwise history`"),
        ("abcdef0", "no run was made at that commit"),
        ("2020-01-01", "there are no measurements up to that time"),
        ("2026-13-01", "expected a date like 2026-11-20"),
        ("--upload-pack=x", "expected a run's id (r12), last"),
        ("best", "expected a run's id (r12), last"),
    ],
)
def test_what_names_nothing(store: Store, text: str, words: str) -> None:
    with pytest.raises(UnknownSelection) as caught:
        select(store, text)
    assert words in str(caught.value.args[0])


def test_one_beginning_of_two_commits(store: Store) -> None:
    store.record(run(minutes=5, commit="4f0c9999aaaaa"), timed(minutes=5))
    with pytest.raises(UnknownSelection, match="2 commits start with it: 4f0c2d1aaaaa, 4f0c9999aaaa"):
        select(store, "4f0c")


def test_moments() -> None:
    assert moment("2026-03-01T12:00Z") == START == moment("2026-03-01T12:00") == moment("2026-03-01T13:00+01:00")
