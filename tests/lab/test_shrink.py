"""Shrinking a failing case."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from warpwise.lab.verify.shrink import shrink
from warpwise.operation import Case


def still() -> float:
    return 0.0


@settings(deadline=None)
@given(size=st.integers(1, 5000), least=st.integers(1, 5000))
def test_it_finds_the_threshold_of_one_size(size, least):
    least = min(size, least)
    found = shrink(Case("c", {"n": size}), lambda case: "wrong" if case.sizes["n"] >= least else None, still)
    assert (found[0].sizes["n"] if found else size) == least


@settings(deadline=None)
@given(m=st.integers(2, 300), n=st.integers(2, 300))
def test_sizes_shrink_together_until_neither_can(m, n):
    def fails(case: Case) -> int | None:
        area = case.sizes["m"] * case.sizes["n"]
        return area if area > 3 else None

    found = shrink(Case("c", {"m": m, "n": n}, layout="strided"), fails, still)
    case, area = found or (Case("c", {"m": m, "n": n}, layout="strided"), m * n)
    assert case.layout == "strided"
    assert area == case.sizes["m"] * case.sizes["n"] > 3
    assert (case.sizes["m"] - 1) * case.sizes["n"] <= 3
    assert case.sizes["m"] * (case.sizes["n"] - 1) <= 3


def test_it_stops_after_so_many_attempts():
    asked = []

    def fails(case: Case) -> str:
        asked.append(case)
        return "wrong"

    shrink(
        Case("c", {"a": 1 << 20, "b": 1 << 20}),
        lambda case: fails(case) if case.sizes["a"] > 5 else None,
        still,
        attempts=7,
    )
    assert len(asked) <= 7


def test_it_stops_when_its_time_is_up():
    now = iter(range(1000))
    found = shrink(
        Case("c", {"n": 10**6}),
        lambda case: "wrong" if case.sizes["n"] > 10 else None,
        lambda: float(next(now)),
        seconds=4,
    )
    assert found is not None
    assert 10 < found[0].sizes["n"] < 10**6


def test_a_case_that_cannot_shrink_stays():
    assert shrink(Case("c", {"n": 1}), lambda case: "wrong", still) is None
    assert shrink(Case("c", {"n": 9}), lambda case: None, still) is None
