"""Combinations of parameters: a sample that holds every value of every axis, and the rest for ``make test-full``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest

FULL = pytest.mark.full


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
