"""From a failing case to a smaller one that still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from warpwise.registry import Case

T = TypeVar("T")
ATTEMPTS = 40
SECONDS = 5.0


def smaller_sizes(size: int) -> Iterator[int]:
    """What to try in place of ``size``, boldest first: 1, a half, three quarters, one less."""
    tried = {size}
    for candidate in (1, size // 2, size - size // 4, size - 1):
        if 0 < candidate < size and candidate not in tried:
            tried.add(candidate)
            yield candidate


def shrink(
    case: Case,
    fails: Callable[[Case], T | None],
    clock: Callable[[], float],
    attempts: int = ATTEMPTS,
    seconds: float = SECONDS,
) -> tuple[Case, T] | None:
    """The smallest case found on which ``fails`` returns something, with what it returned; None if none smaller fails.

    Size by size, greedily; layout and values stay as they are. ``fails`` is asked at most ``attempts`` times and not
    after ``seconds`` by ``clock``. Sizes stay above 0: an empty input runs no kernel.
    """
    deadline, left = clock() + seconds, attempts
    best: tuple[Case, T] | None = None
    improved = True
    while improved:
        improved = False
        for name in case.sizes:
            for candidate in smaller_sizes(case.sizes[name]):
                if left == 0 or clock() > deadline:
                    return best
                left -= 1
                smaller = _resized(case, name, candidate)
                failure = fails(smaller)
                if failure is not None:
                    case, best, improved = smaller, (smaller, failure), True
                    break
    return best


def _resized(case: Case, name: str, size: int) -> Case:
    sizes: Mapping[str, int] = {**case.sizes, name: size}
    return replace(case, sizes=sizes)
