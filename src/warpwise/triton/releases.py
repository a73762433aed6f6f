"""Accesses of a program that may still be under way when a scalar atomic releases.

One thread executes a scalar atomic, and its release orders the accesses of this thread only. Triton puts no barrier
before it (up to version 3.8), so that it can overtake the accesses of other threads: a ``tl.debug_barrier`` must be
between. If the program uses the atomic's result, Triton may insert a barrier for the shared memory that broadcasts it:
only atomics whose result is discarded are considered.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


class OpenAccesses:
    """The loads and stores since the last barrier of the current program that several of its threads execute."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._phase = -1
        self._entries: list[tuple[Array, Array, np.int64]] = []

    def add(self, phase: int, lanes: int, block: int, stamps: Array, granules: Array, stamp: np.int64) -> None:
        """Note an access of ``lanes`` lanes of a block of ``block`` elements, which wrote ``stamp`` into ``stamps``.

        A thread has at most ``block / threads`` elements of a block, or one.
        """
        if phase != self._phase:
            self._phase = phase
            self._entries.clear()
        if lanes > max(1, block // self._threads):
            self._entries.append((stamps, granules, stamp))

    def restamp(self, phase: int, new: Callable[[np.int64], np.int64]) -> None:
        """Replace the stamp of each access of ``phase``, where no later access has replaced it."""
        if phase != self._phase:
            return
        for number, (stamps, granules, stamp) in enumerate(self._entries):
            held = stamps[granules]
            stamps[granules] = np.where(held == stamp, new(stamp), held)
            self._entries[number] = stamps, granules, new(stamp)


def synchronising(builder: type) -> type:
    """Class decorator: the operations of a builder that may synchronise the lanes of a program begin a new phase."""

    def before(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(self: Any, *arguments: Any, **named: Any) -> Any:
            self.tracker.phase += 1
            return method(self, *arguments, **named)

        return call

    def after(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(self: Any, *arguments: Any, **named: Any) -> Any:
            result = method(self, *arguments, **named)
            self.tracker.phase += 1
            return result

        return call

    for name in ("barrier", "atomic_cas", "dot", "gather", "histogram", "reshape", "trans"):
        setattr(builder, f"create_{name}", before(getattr(builder, f"create_{name}")))
    builder.create_atomic_rmw = after(builder.create_atomic_rmw)  # type: ignore[attr-defined]
    return builder
