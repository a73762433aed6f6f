"""Samples of what ``make test-full`` runs: combinations of parameters, and examples of hypothesis."""

from __future__ import annotations

import itertools
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from tests.slow import ELSEWHERE, ONE_IN

FULL = pytest.mark.full
complete = False  # set by conftest.py: True for `make test-full` and `make test-gpu`


def examples(count: int) -> int:
    """How many examples hypothesis draws for a test: ``count``, of which `make test` has a fifth."""
    return count if complete else max(3, count // 5)


def combinations(*axes: Sequence[Any], times: int = 1, names: Sequence[Callable[[Any], str]] = ()) -> list[Any]:
    """Every combination of ``axes`` for ``pytest.mark.parametrize``; those outside the sample are marked ``full``.

    The sample has each value of the longest axis ``times`` times, each time with other values of the others.
    ``names`` are the ids of the axes' values, ``str`` unless given.
    """
    longest = max(range(len(axes)), key=lambda number: len(axes[number]))
    sample = set()
    for turn in range(times * len(axes[longest])):
        places, stride = [], 0
        for number, axis in enumerate(axes):
            if number == longest:
                places.append(turn % len(axis))
                continue
            places.append((turn + (turn // stride if stride else 0)) % len(axis))
            stride = (stride or 1) * len(axis)
        sample.add(tuple(places))
    written = [names[number] if number < len(names) else str for number in range(len(axes))]
    return [
        pytest.param(
            *(axis[place] for axis, place in zip(axes, places, strict=True)),
            id="-".join(write(axis[place]) for write, axis, place in zip(written, axes, places, strict=True)),
            marks=[] if places in sample else [FULL],
        )
        for places in itertools.product(*(range(len(axis)) for axis in axes))
    ]


def thinned(values: Sequence[Any], every: int = 3, name: Callable[[Any], str] = str, first: int = 0) -> list[Any]:
    """``values`` for ``pytest.mark.parametrize``, all but one of ``every``, from ``first`` on, marked ``full``."""
    return [
        pytest.param(value, id=name(value), marks=[FULL] if place % every != first else [])
        for place, value in enumerate(values)
    ]


def mark_sampled(items: Iterable[pytest.Item]) -> None:
    """Mark ``full`` what `make test` leaves out of tests with many parameters.

    Of a test with the mark ``one_in(n)`` one of n remains, from the first on. Of one with several `parametrize`
    decorators each value of each of them remains: item by item, the one with most values that no earlier one has.
    Of a test of one property of every rung of an operation one rung of three remains, other ones for another property.
    Of the slow tests those of ``tests/slow.py`` remain.
    """
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        if not any(map(item.get_closest_marker, ("full", "gpu", "whole"))):
            functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for name, found in functions.items():
        mark = found[0].get_closest_marker("one_in")
        every, first = (mark.args[0], 0) if mark else (1, 0)
        if "tests/ops/" in name and len(found) > 3 and {names for names, _ in _values(found[0])} == {("rung",)}:
            every, first = 3, zlib.crc32(name.encode()) % 3
        file, _, test = name.removeprefix("tests/").partition("::")
        every *= ONE_IN.get(file, {}).get(test, 1)
        if test in ELSEWHERE.get(file, {}):
            first = len(found)
        kept = _each_value(found)[first::every]
        for item in found:
            if item not in kept:
                item.add_marker(FULL)


def _each_value(items: list[pytest.Item]) -> list[pytest.Item]:
    """Items that together have each value; of those with equally many new values, one whose values are rare so far."""
    values = {item: _values(item) for item in items}
    if len(values[items[0]]) < 2:
        return items
    missing, kept = set[Any]().union(*values.values()), []
    times: Counter[Any] = Counter()
    while missing:
        kept.append(
            max(items, key=lambda item: (len(values[item] & missing), -sum(times[one] for one in values[item])))
        )
        missing -= values[kept[-1]]
        times.update(values[kept[-1]])
    return kept


def _values(item: pytest.Item) -> set[Any]:
    """For each `parametrize` decorator its names, and the values that ``item`` has of them."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    decorators = [mark.args[0] for mark in item.iter_markers("parametrize")]
    axes = [names if isinstance(names, (list, tuple)) else names.replace(" ", "").split(",") for names in decorators]
    return {(tuple(names), tuple(id(params[name]) for name in names)) for names in axes if set(names) <= set(params)}
