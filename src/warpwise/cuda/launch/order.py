"""The order in which an emulated launch runs blocks and threads, or Triton programs, unless the call sets it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

_ORDER: ContextVar[str] = ContextVar("order", default="forward")


def current_order() -> str:
    """Return the order of a launch whose call does not set it."""
    return _ORDER.get()


@contextlib.contextmanager
def launches_in(order: str) -> Iterator[None]:
    """Context manager: launches whose call does not set an order run in this one, "forward" or "reverse"."""
    token = _ORDER.set(order)
    try:
        yield
    finally:
        _ORDER.reset(token)
