"""Interception of launches: a callback receives each launch of a thread in place of its execution.

The lab counts, checks and records the kernels of a rung this way, without changes to the rung.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Interceptor = Callable[[Any, tuple[Any, ...], Mapping[str, Any]], None]
"""``interceptor(launcher, args, options)`` is called in place of ``launcher(*args, **options)``, which it may call
itself.
"""

INTERCEPTORS: list[tuple[int, Interceptor]] = []
"""Active interceptors, each with the id of the thread whose launches it receives. A launcher only tests whether it is
empty.
"""


@contextlib.contextmanager
def intercepting(interceptor: Interceptor) -> Iterator[None]:
    """Pass every CUDA or Triton launch of this thread to ``interceptor``, except those that the interceptor makes."""
    entry = (threading.get_ident(), interceptor)
    INTERCEPTORS.append(entry)
    try:
        yield
    finally:
        INTERCEPTORS.remove(entry)


@contextlib.contextmanager
def without_replays() -> Iterator[None]:
    """Let every operation call its launcher, in all threads, in place of a replay of its recorded launches."""
    entry = (0, _launch)  # no thread has this id
    INTERCEPTORS.append(entry)
    try:
        yield
    finally:
        INTERCEPTORS.remove(entry)


def _launch(launcher: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
    launcher(*args, **options)


def intercepted(launcher: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> bool:
    """Pass a launch to the innermost interceptor of this thread. Returns False if there is none."""
    own = [entry for entry in INTERCEPTORS if entry[0] == threading.get_ident()]
    if not own:
        return False
    for entry in own:
        INTERCEPTORS.remove(entry)
    try:
        own[-1][1](launcher, args, options)
    finally:
        INTERCEPTORS.extend(own)
    return True
