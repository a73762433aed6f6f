"""Atomic read-modify-write operations of the interpreter. Elements of a block are applied one after the other."""

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
    """Apply ``name`` (ADD, XCHG, CAS ...) in each active lane. Return the old stored values, 0 where masked off."""
    result = np.zeros(pointer.shape, dtype=bits.dtype)
    for span in memory.spans(pointer, mask, bits.dtype.itemsize, "atomic"):
        if not memory.check_writable(span):
            continue
        if span.allocation.shadow is not None:
            span.allocation.shadow.atomic(span.allocation, span.index, span.lanes, bits.dtype.itemsize)
        where: Any = ... if span.lanes is None else span.lanes
        wanted = None if expected is None else expected[where].ravel()
        old = _apply(span, name, bits[where].ravel(), wanted, dtype)
        result[where] = old.reshape(result[where].shape)
        memory.changes += bool((span.allocation.view(bits.dtype)[span.index.ravel()] != old).any())
    memory.latest_read = pointer, result
    return result


def _apply(span: Span, name: str, bits: Array, expected: Array | None, dtype: tl.dtype) -> Array:
    """Apply the lanes that access one tensor, in rounds: a round takes one lane of each element and is vectorised."""
    view = span.allocation.view(bits.dtype)
    index = span.index.ravel()
    unsigned = name.startswith("U") and bits.dtype.kind == "i"
    old = np.empty_like(bits)
    remaining = np.arange(index.size)
    while remaining.size:
        _, first = np.unique(index[remaining], return_index=True)
        if first.size < remaining.size // 8:
            _apply_serially(view, index, bits, expected, remaining, old, name, dtype, unsigned)
            break
        now = remaining[np.sort(first)]
        current = view[index[now]]
        old[now] = current
        wanted = None if expected is None else expected[now]
        view[index[now]] = _combined(name, current, bits[now], wanted, dtype, unsigned)
        remaining = np.delete(remaining, first)
    return old


def _apply_serially(
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
    """Apply many lanes to few elements: element by element, with ``ufunc.accumulate`` where the operation has it."""
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
    """Return the new stored values, given the current ones and the lanes' operands."""
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
