"""Undefined values: the lanes that the mask of a load excludes, if the load has no ``other``.

Operations pass the undefined lanes of their operands on to their results. A select passes on those of the operand that
it chooses. A store or an atomic of such a lane, an address, a mask or a condition that depends on one is a finding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import triton.language as tl

from warpwise.cuda.errors import UninitializedRead
from warpwise.triton.compat import TensorHandle, numpy_dtype
from warpwise.triton.findings import Recorder, Site

Array = np.ndarray[Any, np.dtype[Any]]
Bounds = tuple[float, float]  # integers for integer types

_ATTRIBUTE = "warpwise_undefined"
_MASKED = "masked load without other", "other="
_BLOCK_POINTER = "load outside of a block pointer without padding_option", 'padding_option="zero"'


@dataclass(frozen=True)
class UndefinedLanes:
    """The undefined lanes of a handle, in the shape of its data, and the statement that loaded one of them.

    ``bounds``: the least and the greatest value that they can have, if not those of the handle's type.
    """

    lanes: Array
    site: Site
    bounds: Bounds | None = None


def lanes_of(handle: Any) -> UndefinedLanes | None:
    """Return the undefined lanes of a handle, or None if all are defined."""
    return getattr(handle, _ATTRIBUTE, None)


def mark(handle: Any, lanes: Array, site: Site, bounds: Bounds | None = None) -> Any:
    """Return ``handle`` with undefined ``lanes``, if there is one."""
    if lanes.any():
        setattr(handle, _ATTRIBUTE, UndefinedLanes(lanes, site, bounds))
    return handle


def bounds_of(handle: Any) -> Bounds | None:
    """Return the least and the greatest value of the undefined lanes; None if they can be any number or NaN."""
    found, scalar = lanes_of(handle), handle.dtype.scalar
    if found is not None and found.bounds is not None:
        return found.bounds
    if scalar.is_int1():
        return 0, 1
    if not scalar.is_int():
        return None
    limits = np.iinfo(numpy_dtype(scalar))
    return int(limits.min), int(limits.max)


def report(recorder: Recorder, handle: Any, active: Array | None, what: str, message: str) -> None:
    """Record a finding if an active lane of ``handle`` is undefined. ``what`` names the access that uses it."""
    found = lanes_of(handle)
    if found is None:
        return
    used = found.lanes if active is None else np.broadcast_to(found.lanes, active.shape) & active
    if used.any():
        name, option = _BLOCK_POINTER if found.site in recorder.block_pointer_loads else _MASKED
        load = recorder.access(name, recorder.program, (), found.site)
        hint = f"Triton leaves these lanes undefined: give the load {option}, or choose a value with tl.where."
        recorder.add(
            UninitializedRead, message, what, np.argwhere(used)[0], other=load, count=int(used.sum()), hint=hint
        )


def _handles(arguments: Iterable[Any]) -> Iterator[Any]:
    for argument in arguments:
        if isinstance(argument, TensorHandle):
            yield argument
        elif isinstance(argument, (list, tuple)):
            yield from _handles(argument)


def passed_on(handles: Iterable[Any], rule: Callable[[list[Array]], Array], result: Any) -> Any:
    """Return ``result`` with the lanes that ``rule`` computes from the undefined lanes of each handle.

    A finding then names the load of the operand that by itself makes the most lanes undefined.
    """
    operands = list(handles)
    found = [lanes_of(operand) for operand in operands]
    undefined = [each for each in found if each is not None]
    if not undefined:
        return result
    none = [np.zeros(np.shape(operand.data), dtype=bool) for operand in operands]

    def result_of(chosen: Iterable[UndefinedLanes]) -> Array:
        kept = {id(each): each.lanes for each in chosen}
        return rule([kept.get(id(each), empty) for each, empty in zip(found, none, strict=True)])

    most = undefined[0]
    if any(each.site != most.site for each in undefined):
        most = max(undefined, key=lambda each: float(np.mean(result_of([each]))))
    return mark(result, result_of(undefined), most.site)


def pass_on_elementwise(operands: Iterable[Any], result: Any) -> Any:
    """Return ``result`` of an elementwise operation with the undefined lanes of its operands."""

    def rule(lanes: list[Array]) -> Array:
        return np.broadcast_to(functools.reduce(np.logical_or, lanes), np.shape(result.data))

    return passed_on(operands, rule, result)


def _elementwise(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, *arguments: Any) -> Any:
        result = method(self, *arguments)
        for argument in arguments:
            if hasattr(argument, _ATTRIBUTE) or type(argument) is list:
                break
        else:
            return result
        return pass_on_elementwise(_handles(arguments), result)

    return call


def _movement(method: Callable[..., Any]) -> Callable[..., Any]:
    """Operations that move lanes: the undefined lanes move in the same way."""

    @functools.wraps(method)
    def call(self: Any, *arguments: Any) -> Any:
        result = method(self, *arguments)
        operands = list(_handles(arguments))
        undefined = [each for each in map(lanes_of, operands) if each is not None]
        if not undefined:
            return result
        found = undefined[0]
        bounds = found.bounds if all(each.bounds == found.bounds for each in undefined) else None
        moved = method(self, *(_lanes_as_handle(argument) for argument in arguments))
        if isinstance(result, tuple):
            for part, lanes in zip(result, moved, strict=True):
                mark(part, lanes.data, found.site, bounds)
            return result
        return mark(result, moved.data, found.site, bounds)

    return call


def _lanes_as_handle(argument: Any) -> Any:
    if not isinstance(argument, TensorHandle):
        return argument
    found = lanes_of(argument)
    lanes = np.zeros(np.shape(argument.data), dtype=bool) if found is None else found.lanes
    return TensorHandle(lanes, tl.int1)


def _cast(method: Callable[..., Any]) -> Callable[..., Any]:
    """Casts from an integer: a wider type does not widen the range of the undefined lanes."""

    @functools.wraps(method)
    def call(self: Any, src: Any, dst_type: Any, *rest: Any) -> Any:
        result = method(self, src, dst_type, *rest)
        found, scalar = lanes_of(src), dst_type.scalar
        if found is None:
            return result
        before, bounds = bounds_of(src), None
        if before is not None and (scalar.is_int() or scalar.name in ("fp16", "fp32", "fp64")):
            low, high = np.array(before, numpy_dtype(src.dtype)).astype(numpy_dtype(scalar))
            if not scalar.is_int() or (int(low), int(high)) == before:
                bounds = low.item(), high.item()
        return mark(result, np.broadcast_to(found.lanes, np.shape(result.data)), found.site, bounds)

    return call


def _select(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, cond: Any, lhs: Any, rhs: Any) -> Any:
        def rule(lanes: list[Array]) -> Array:
            return np.where(cond.data, lanes[1], lanes[2]) | lanes[0]

        return passed_on((cond, lhs, rhs), rule, method(self, cond, lhs, rhs))

    return call


def _absorbing(zero: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """``and`` and ``or``: a defined operand of value ``zero`` (0, or all bits set) makes the result defined."""

    def wrapped(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(self: Any, lhs: Any, rhs: Any) -> Any:
            def rule(lanes: list[Array]) -> Array:
                left, right = lanes
                decides = [(part.data == 0) if zero else (~part.data == 0) for part in (lhs, rhs)]
                return (left | right) & ~(decides[0] & ~left) & ~(decides[1] & ~right)

            return passed_on((lhs, rhs), rule, method(self, lhs, rhs))

        return call

    return wrapped


def _dot(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, a: Any, b: Any, d: Any, *rest: Any) -> Any:
        def rule(lanes: list[Array]) -> Array:
            rows, columns = lanes[0].any(axis=-1, keepdims=True), lanes[1].any(axis=-2, keepdims=True)
            return rows | columns | lanes[2]

        return passed_on((a, b, d), rule, method(self, a, b, d, *rest))

    return call


def _gather(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, src: Any, indices: Any, axis: int) -> Any:
        def rule(lanes: list[Array]) -> Array:
            return np.take_along_axis(lanes[0], indices.data, axis=axis) | lanes[1]

        return passed_on((src, indices), rule, method(self, src, indices, axis))

    return call


def _histogram(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, data: Any, bins: int, mask: Any, *rest: Any) -> Any:
        result = method(self, data, bins, mask, *rest)
        found = lanes_of(data)
        if found is None:
            return result
        counted = found.lanes if mask is None else found.lanes & np.asarray(mask.data, dtype=bool)
        return mark(result, np.full(np.shape(result.data), counted.any()), found.site)

    return call


def _block_pointer_load(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Any, *arguments: Any) -> Any:
        result = method(self, *arguments)
        if (found := lanes_of(result)) is not None:
            self.recorder.block_pointer_loads.add(found.site)
        return result

    return call


_MOVEMENTS = ("broadcast", "cat", "expand_dims", "join", "reshape", "splat", "split", "trans", "unsplat")
_RULES: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    **{f"create_{name}": _movement for name in _MOVEMENTS},
    **{f"create_{name}": _cast for name in ("int_cast", "si_to_fp", "ui_to_fp")},
    "create_select": _select,
    "create_and": _absorbing(zero=True),
    "create_or": _absorbing(zero=False),
    "create_dot": _dot,
    "create_gather": _gather,
    "create_histogram": _histogram,
    "create_tensor_pointer_load": _block_pointer_load,
}
_WITHOUT_VALUES = (
    "advance", "assert", "assume", "atomic", "barrier", "descriptor", "dot_scaled", "get", "inline", "load", "make",
    "masked", "print", "store", "tensor",
)  # fmt: skip


def pass_on_undefined_lanes(builder: type) -> type:
    """Class decorator: each operation of a builder passes the undefined lanes of its operands on to its result."""
    for name in dir(builder):
        if name in _RULES or (
            name.startswith("create_") and not name.removeprefix("create_").startswith(_WITHOUT_VALUES)
        ):
            setattr(builder, name, _RULES.get(name, _elementwise)(getattr(builder, name)))
    return builder
