"""Atomic read-modify-writes of the interpreter: lanes one after the other, each seeing the lanes before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl

from warpwise.triton import numerics
from warpwise.triton.memory import Memory, Span

Array = np.ndarray[Any, np.dtype[Any]]

_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "ADD": np.add, "FADD": np.add, "MAX": np.fmax, "UMAX": np.maximum, "MIN": np.fmin, "UMIN": np.minimum,
    "AND": np.bitwise_and, "OR": np.bitwise_or, "XOR": np.bitwise_xor,
}  # fmt: skip


def read_modify_write(
    memory: Memory, name: str, pointer: Array, bits: Array, expected: Array | None, mask: Array | None, dtype: tl.dtype
) -> Array:
    """Carry out ``name`` (ADD, XCHG, CAS ...) at each active lane; returns the old values as stored, 0 where masked."""
    result = np.zeros(pointer.shape, dtype=bits.dtype)
    for span in memory.spans(pointer, mask, bits.dtype.itemsize, "atomic"):
        if not memory.may_write(span):
            continue
        if span.slot.shadow is not None:
            span.slot.shadow.atomic(span.slot, span.index, span.lanes, bits.dtype.itemsize)
        where: Any = ... if span.lanes is None else span.lanes
        wanted = None if expected is None else expected[where].ravel()
        old = _apply(span, name, bits[where].ravel(), wanted, dtype)
        result[where] = old.reshape(result[where].shape)
    return result


def _apply(span: Span, name: str, bits: Array, expected: Array | None, dtype: tl.dtype) -> Array:
    """One tensor's lanes: at once if each element is hit by one lane only, otherwise in rounds of such lanes."""
    view = span.slot.view(bits.dtype)
    index = span.index.ravel()
    unsigned = name.startswith("U") and bits.dtype.kind == "i"
    old = np.empty_like(bits)
    remaining = np.arange(index.size)
    while remaining.size:
        _, first = np.unique(index[remaining], return_index=True)
        if first.size < remaining.size // 8:
            _in_turn(view, index, bits, expected, remaining, old, name, dtype, unsigned)
            break
        now = remaining[np.sort(first)]
        current = view[index[now]]
        old[now] = current
        wanted = None if expected is None else expected[now]
        view[index[now]] = _combined(name, current, bits[now], wanted, dtype, unsigned)
        remaining = np.delete(remaining, first)
    return old


def _in_turn(
    view: Array,
    index: Array,
    bits: Array,
    expected: Array | None,
    lanes: Array,
    old: Array,
    name: str,
    dtype: tl.dtype,
    unsigned: bool,
) -> None:
    """Few elements hit by many lanes: element by element, with a running result for the sums and extremes."""
    order = lanes[np.argsort(index[lanes], kind="stable")]
    starts = np.flatnonzero(np.diff(index[order], prepend=-1))
    for group in np.split(order, starts[1:]):
        element = index[group[0]]
        operation = _COMBINE.get(name)
        if isinstance(operation, np.ufunc) and dtype.name not in numerics.ENCODED and not unsigned:
            running = operation.accumulate(np.concatenate([view[element : element + 1], bits[group]]), dtype=bits.dtype)
            old[group] = running[:-1]
            view[element] = running[-1]
            continue
        for lane in group:
            one = slice(lane, lane + 1)
            current = view[element : element + 1].copy()
            old[one] = current
            wanted = None if expected is None else expected[one]
            view[element : element + 1] = _combined(name, current, bits[one], wanted, dtype, unsigned)


def _combined(name: str, current: Array, bits: Array, expected: Array | None, dtype: tl.dtype, unsigned: bool) -> Array:
    """The new stored values from the current ones and the lanes' operands."""
    if name == "XCHG":
        return bits
    if name == "CAS":
        return np.where(current == expected, bits, current)
    operation = _COMBINE[name]
    if dtype.name in numerics.ENCODED:
        summed = operation(numerics.decode(current, dtype.name), numerics.decode(bits, dtype.name))
        return numerics.encode(summed, dtype.name)
    if unsigned:
        kind = np.dtype(f"u{bits.dtype.itemsize}")
        return operation(current.view(kind), bits.view(kind)).view(bits.dtype)
    return operation(current, bits)
