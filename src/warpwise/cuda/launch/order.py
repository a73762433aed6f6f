"""The order in which emulated launches run their blocks, or programs, if the call does not name one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

_ORDER: ContextVar[str] = ContextVar("order", default="forward")


def current_order() -> str:
    """The order of a launch that does not name one."""
    return _ORDER.get()


@contextlib.contextmanager
def launches_in(order: str) -> Iterator[None]:
    """Run the launches of this context "forward" or in "reverse" order."""
    token = _ORDER.set(order)
    try:
        yield
    finally:
        _ORDER.reset(token)
