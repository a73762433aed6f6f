"""Functions of scalars, which a kernel passes to ``tl.reduce``, ``tl.associative_scan`` and ``tl.map_elementwise``.

They are called with blocks. Where the lanes disagree on a condition, the call is repeated for the lanes of each side.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.language as tl

from warpwise.triton.compat import TensorHandle
from warpwise.triton.undefined import passed_on

Array = np.ndarray[Any, np.dtype[Any]]
_calls = 0  # calls of functions of scalars in progress; launches are serialised


class _LanesDiffer(Exception):
    """The lanes take different branches; ``first`` are those that take the branch of the first lane."""

    def __init__(self, first: Array) -> None:
        super().__init__()
        self.first = first


def in_progress() -> bool:
    """Return True while a function of scalars is called, in which a block may be a condition or a bound."""
    return _calls > 0


def common_value(values: Array) -> Any:
    """Return the value that all lanes have; if there is none, the call is repeated for the lanes with the first."""
    first = values.reshape(-1)[:1]
    if not np.array_equal(np.broadcast_to(first, values.shape), values, equal_nan=True):
        raise _LanesDiffer((values == first) | (np.isnan(values) & np.isnan(first)))
    return first.item()


@contextlib.contextmanager
def _call() -> Iterator[None]:
    global _calls
    _calls += 1
    try:
        yield
    finally:
        _calls -= 1


def to_tensor(data: Array, dtype: tl.dtype) -> tl.tensor:
    """Return a block, or a scalar if ``data`` has no axes."""
    if data.ndim == 0:
        return tl.tensor(TensorHandle(data.reshape(1), dtype.scalar), dtype.scalar)
    return tl.tensor(TensorHandle(data, dtype.scalar), tl.block_type(dtype.scalar, list(data.shape)))


def apply(function: Callable[..., Any], operands: list[tl.tensor]) -> list[tl.tensor]:
    """Call ``function`` for each lane of ``operands``, blocks of one shape, and return its results as a list.

    A result that is the same for all lanes can be a scalar.
    """
    try:
        with _call():
            result = function(*operands)
        results = result if isinstance(result, (tuple, tl.tuple)) else (result,)
        return [part if isinstance(part, tl.tensor) else tl.core.to_tensor(part) for part in results]
    except _LanesDiffer as differ:
        shape = operands[0].handle.data.shape
        first = np.broadcast_to(differ.first, shape).reshape(-1)
    merged: list[tuple[Array, tl.dtype]] = []
    for side in (first, ~first):
        lanes = np.flatnonzero(side)
        size = 1 << (len(lanes) - 1).bit_length()  # a block has a power of two of elements: the last lane is repeated
        lanes = np.pad(lanes, (0, size - len(lanes)), mode="edge")
        parts = [to_tensor(operand.handle.data.reshape(-1)[lanes], operand.type) for operand in operands]
        for number, part in enumerate(apply(function, parts)):
            if len(merged) <= number:
                merged.append((np.empty(first.size, part.handle.data.dtype), part.type.scalar))
            merged[number][0][lanes] = part.handle.data
    return [to_tensor(data.reshape(shape), kind) for data, kind in merged]


def map_elementwise(
    scalar_fn: Callable[..., Any], *args: tl.tensor, pack: Any = 1, **ignored: Any
) -> tl.tensor | tuple[tl.tensor, ...]:
    """``tl.map_elementwise``; the ``pack`` elements of one call are consecutive in row-major order."""
    pack = getattr(pack, "value", pack)
    shape = np.broadcast_shapes(*[operand.handle.data.shape for operand in args])
    if pack < 1 or math.prod(shape) % pack:
        raise ValueError(f"map_elementwise: pack is {pack}: expected a divisor of the {math.prod(shape)} elements")
    operands = []
    for operand in args:
        groups = np.broadcast_to(operand.handle.data, shape).reshape(-1, pack)
        operands += [to_tensor(np.ascontiguousarray(groups[:, at]), operand.type) for at in range(pack)]
    single = False

    def function(*scalars: tl.tensor) -> Any:
        nonlocal single
        result = scalar_fn(*scalars)
        single = not isinstance(result, (tuple, tl.tuple))
        return result

    def undefined(lanes: list[Array]) -> Array:
        """A result depends on all elements of its call."""
        either = functools.reduce(np.logical_or, [np.broadcast_to(part, shape) for part in lanes])
        return np.repeat(either.reshape(-1, pack).any(axis=1), pack).reshape(shape)

    results = apply(function, operands)
    output = []
    for at in range(0, len(results), pack):
        columns = [np.broadcast_to(part.handle.data, math.prod(shape) // pack) for part in results[at : at + pack]]
        block = to_tensor(np.stack(columns, axis=1).reshape(shape), results[at].type)
        passed_on([operand.handle for operand in args], undefined, block.handle)
        output.append(block)
    return output[0] if single else tuple(output)
