"""Accesses of a program that a scalar atomic with release semantics does not order.

One thread of the program executes a scalar atomic, so the release orders only the accesses of this thread. Triton up to
3.8 puts no barrier before the atomic, so accesses of other threads may complete after it: the kernel needs a
``tl.debug_barrier`` before the atomic. If the kernel uses the result of the atomic, Triton may insert a barrier,
because it broadcasts the result through shared memory. Only atomics whose result is discarded are considered here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


class PendingAccesses:
    """The loads and stores of the current program since its last barrier that more than one of its threads executes."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._phase = -1
        self._entries: list[tuple[Array, Array, np.int64]] = []

    def add(self, phase: int, lanes: int, block: int, stamps: Array, granules: Array, stamp: np.int64) -> None:
        """Record an access by ``lanes`` lanes of a block of ``block`` elements, which wrote ``stamp`` into ``stamps``.

        One thread executes at most ``block / threads`` of these lanes, or one lane of a smaller block.
        """
        if phase != self._phase:
            self._phase = phase
            self._entries.clear()
        if lanes > max(1, block // self._threads):
            self._entries.append((stamps, granules, stamp))

    def restamp(self, phase: int, new: Callable[[np.int64], np.int64]) -> None:
        """Replace the stamp of each access in ``phase`` by ``new(stamp)``, where no later access has replaced it."""
        if phase != self._phase:
            return
        for number, (stamps, granules, stamp) in enumerate(self._entries):
            held = stamps[granules]
            stamps[granules] = np.where(held == stamp, new(stamp), held)
            self._entries[number] = stamps, granules, new(stamp)


def synchronising(builder: type) -> type:
    """Class decorator: a new phase begins at each operation of a builder that may synchronise the lanes of a program.

    It begins before the operation; at an atomic other than compare-and-swap it begins after it.
    """

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
