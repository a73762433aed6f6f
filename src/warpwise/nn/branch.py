"""Work of a training step that nothing else in the step waits for, on a second stream of its CUDA graph."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

_open = threading.local()


class Branch:
    """A stream beside the capturing one, and what its work reads, which must not be freed before ``join``."""

    def __init__(self) -> None:
        self.stream = torch.cuda.Stream()
        self.kept: list[object] = []

    def run(self, work: Callable[[], None], reads: object) -> None:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            work()
        self.kept.append(reads)

    def join(self) -> None:
        if self.kept:
            torch.cuda.current_stream().wait_stream(self.stream)
        self.kept.clear()


@contextmanager
def branch() -> Iterator[None]:
    """Let ``aside`` use a second stream of the graph that this thread captures."""
    _open.branch = Branch()
    try:
        yield
    finally:
        _open.branch = None


def aside(work: Callable[[], None], reads: object) -> None:
    """Call ``work``, on the second stream while a step is captured. It reads ``reads`` and allocates nothing."""
    current: Branch | None = getattr(_open, "branch", None)
    if current is None:
        work()
    else:
        current.run(work, reads)


def join() -> None:
    """Let the current stream wait for the work of ``aside``."""
    current: Branch | None = getattr(_open, "branch", None)
    if current is not None:
        current.join()
