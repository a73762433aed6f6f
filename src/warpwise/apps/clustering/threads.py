"""The number of CPU threads of a fit."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch

# Elements of a thread. A fit is thousands of short operations, and the threads of each wait for one another: if other
# programs use the cores, a wait takes milliseconds, longer than an operation of fewer elements.
ELEMENTS = 1 << 20

Model = TypeVar("Model")
P = ParamSpec("P")
R = TypeVar("R")


def threads_of(model: Any, X: Any) -> int:
    """The threads for points X (N, D): one for each 2^20 elements of X or of the probabilities of N points."""
    shape: tuple[Any, ...] = tuple(getattr(X, "shape", ()))
    if len(shape) != 2:
        return 1
    counts = (getattr(model, name, None) for name in ("n_domains", "n_types"))
    widths = [count for count in counts if isinstance(count, int)]
    return max(1, int(shape[0]) * max(int(shape[1]), *widths, 1) // ELEMENTS)


@contextlib.contextmanager
def at_most(threads: int) -> Iterator[None]:
    """At most this number of threads of PyTorch, and the former number afterwards."""
    before = torch.get_num_threads()
    if threads < before:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        if threads < before:
            torch.set_num_threads(before)


def with_threads(
    method: Callable[Concatenate[Model, Any, P], R],
) -> Callable[Concatenate[Model, Any, P], R]:
    """``method(self, X, ...)`` with at most ``threads_of(self, X)`` threads of PyTorch, and the former number after it.

    The order of the additions, and with it the last bit of a result, depends on the number of threads. Fits that have
    one thread are therefore equal on machines with different numbers of cores.
    """

    @functools.wraps(method)
    def limited(self: Model, X: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        with at_most(threads_of(self, X)):
            return method(self, X, *args, **kwargs)

    return limited
