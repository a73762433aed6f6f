"""``shrink``: find a smaller case that still fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from warpwise.operation import Case

T = TypeVar("T")
ATTEMPTS = 80
SECONDS = 5.0


def shrink(
    case: Case,
    fails: Callable[[Case], T | None],
    clock: Callable[[], float],
    attempts: int = ATTEMPTS,
    seconds: float = SECONDS,
) -> tuple[Case, T] | None:
    """Return the smallest failing case found and what ``fails`` returned for it, or None if no smaller case fails.

    Each size in turn is bisected between 1 and its value, until none decreases. Attributes, layouts and values stay as
    they are. ``fails`` returns None for a case that passes; it is called at most ``attempts`` times, and not after
    ``seconds`` measured by ``clock``.
    """
    deadline, left = clock() + seconds, attempts
    best: tuple[Case, T] | None = None
    improved = True
    while improved:
        improved = False
        for name in case.sizes:
            passing = 0
            while case.sizes[name] - passing > 1:
                if left == 0 or clock() > deadline:
                    return best
                left -= 1
                candidate = (passing + case.sizes[name]) // 2 if passing else 1
                smaller = replace(case, sizes={**case.sizes, name: candidate})
                failure = fails(smaller)
                if failure is None:
                    passing = candidate
                else:
                    case, best, improved = smaller, (smaller, failure), True
    return best
