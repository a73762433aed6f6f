"""Launches shown to whoever listens, in place of being made: how a rung's kernels are counted without knowing the rung."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Observer = Callable[[Any, tuple[Any, ...], Mapping[str, Any]], None]
"""``observer(launcher, args, options)`` is called in place of ``launcher(*args, **options)``, which it may make itself."""

OBSERVERS: list[tuple[int, Observer]] = []
"""Who listens, with the thread whose launches these are; empty nearly always, which is all that a launcher looks at."""


@contextlib.contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Inside, every launch that this thread makes, CUDA or Triton, goes to ``observer``, except the observer's own."""
    entry = (threading.get_ident(), observer)
    OBSERVERS.append(entry)
    try:
        yield
    finally:
        OBSERVERS.remove(entry)


def taken(launcher: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> bool:
    """Hand a launch to this thread's innermost observer; false if none listens here, and the launch is still to make."""
    own = [entry for entry in OBSERVERS if entry[0] == threading.get_ident()]
    if not own:
        return False
    for entry in own:
        OBSERVERS.remove(entry)
    try:
        own[-1][1](launcher, args, options)
    finally:
        OBSERVERS.extend(own)
    return True
