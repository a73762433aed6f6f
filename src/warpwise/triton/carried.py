"""Types of variables across loops and branches, which the compiler checks and Python does not.

In the compiler a variable that a loop or a branch assigns has one type: that before the loop or the ``if``, or that of
both branches. A variable that is first assigned in a loop, or in one branch only, does not exist afterwards. This holds
for ``for`` with ``range`` and for ``while``, and for an ``if`` whose condition is a value of the run. ``static_range``
and conditions of constants are unrolled; nothing is checked there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import triton.language as tl

from warpwise.cuda.errors import CompileError
from warpwise.triton.builder import handle_of

Lines = tuple[tuple[str, int], ...]  # names that a region assigns, each with the line of its last assignment
_TUPLES = (tuple, list, tl.tuple)


class LoopRange:
    """The iterations of a loop that the compiler does not unroll: scalars of type ``dtype``."""

    def __init__(self, values: range, dtype: tl.dtype) -> None:
        self.values = values
        self.dtype = dtype

    def __iter__(self) -> Iterator[tl.tensor]:
        for value in self.values:
            yield tl.tensor(handle_of(np.array([value]), self.dtype), self.dtype)


class _Constant:
    """The type of a value of the compilation; ``fixed``: a number or text, not None or a dtype."""

    def __init__(self, value: Any) -> None:
        self.value = getattr(value, "value", value) if isinstance(value, tl.constexpr) else value
        self.fixed = value is not None and not isinstance(value, tl.dtype)

    def __str__(self) -> str:
        return f"constexpr[{self.value}]" if self.fixed else str(self.value)


def type_of(value: Any) -> Any:
    """Return a tensor's type, a tuple of types for a tuple, the class of another value, or a ``_Constant``."""
    if isinstance(value, tl.tensor):
        return value.type
    if isinstance(value, _TUPLES):
        return tuple(type_of(item) for item in value)
    if isinstance(value, tl.core.base_value) and not isinstance(value, tl.constexpr):
        return type(value)
    return _Constant(value)


def _same(old: Any, new: Any, nested: bool = False) -> bool:
    """Return False if the compiler refuses ``new`` for a variable of type ``old``."""
    constants = isinstance(old, _Constant), isinstance(new, _Constant)
    if any(constants):
        return all(constants) or nested
    if isinstance(old, tuple) and isinstance(new, tuple):
        return len(old) == len(new) and all(_same(a, b, True) for a, b in zip(old, new, strict=True))
    return type(old) is type(new) and bool(old == new)


def _text(kind: Any) -> str:
    if isinstance(kind, tuple):
        return f"({', '.join(map(_text, kind))})"
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _advice(name: str, old: Any, new: Any) -> str:
    """Return what to do so that a variable of type ``old`` is not assigned a value of type ``new``."""
    if isinstance(old, tl.dtype) and isinstance(new, tl.dtype):
        if old.scalar == new.scalar:
            return f"give {name} the same shape in both, by tl.full or tl.broadcast_to"
        if not old.scalar.is_ptr() and not new.scalar.is_ptr():
            return f"start with the type {new.scalar}, or convert the new value by .to(tl.{_long_name(old.scalar)})"
    if isinstance(old, _Constant):
        return f"use another name in place of {name}, or start with a tensor: tl.full or tl.zeros"
    return f"use another name for the new value of {name}"


def _long_name(dtype: tl.dtype) -> str:
    names = (name for name in ("float16", "bfloat16", "float32", "float64") if getattr(tl, name) == dtype)
    return next(names, str(dtype))


class Region:
    """A loop or an ``if`` of one execution; ``before`` are the types of the variables that it assigns."""

    __slots__ = ("before", "fresh", "is_loop", "lines", "seen", "taken", "values")

    def __init__(self, lines: Lines, is_loop: bool, known: Mapping[str, Any] | None) -> None:
        self.lines = lines if known is not None else ()
        self.is_loop = is_loop
        self.before = {name: type_of(known[name]) for name, _ in self.lines if known is not None and name in known}
        self.fresh: list[str] = []
        self.taken: Any = None
        self.values: Iterable[Any] = ()
        self.seen: dict[str, tuple[Any, bool]] | None = None

    def new(self, name: str) -> bool:
        """Return True if the iteration or branch that ended has defined ``name``."""
        return name in self.fresh

    def end(self) -> None:
        """Called at the end of an iteration or branch; raises ``CompileError`` for a variable of another type."""
        if not self.lines:
            return
        values, before = sys._getframe(1).f_locals, self.before
        self.fresh = []
        for name, line in self.lines:
            if name not in values:
                continue
            value = values[name]
            if name not in before:
                self.fresh.append(name)
                continue
            old = before[name]
            if isinstance(value, tl.tensor) and value.type is old:
                continue
            new = type_of(value)
            if not _same(old, new) and not self._keeps_nothing(old):
                raise CompileError(self._changed(name, line, old, new))

    def _keeps_nothing(self, old: Any) -> bool:
        """True for None or a dtype before an ``if``: the compiler does not compare its type."""
        return not self.is_loop and isinstance(old, _Constant) and not old.fixed

    def _changed(self, name: str, line: int, old: Any, new: Any) -> str:
        advice = _advice(name, old, new)
        if self.is_loop:
            return (
                f"Loop-carried variable {name} has initial type {_text(old)} but is re-assigned to {_text(new)} in the "
                f"loop (line {line}): a variable keeps its type in a loop; {advice}"
            )
        return (
            f"{name} has type {_text(old)} before the if, but type {_text(new)} after the branch (line {line}): "
            f"a variable keeps its type in a branch whose condition is not a constant; {advice}"
        )

    def record(self, both: tuple[str, ...]) -> None:
        """Compare the new variables ``both`` with their types in the other branch, if another execution took it."""
        if self.seen is None:
            return
        values, lines = sys._getframe(1).f_locals, dict(self.lines)
        for name in both:
            if name in self.before or name not in values:
                continue
            kind = type_of(values[name])
            known, taken = self.seen.setdefault(name, (kind, bool(self.taken)))
            if taken != bool(self.taken) and not _same(known, kind, True):
                then, other = (kind, known) if self.taken else (known, kind)
                raise CompileError(
                    f"Mismatched type for {name} between then block ({_text(then)}) and else block ({_text(other)}), "
                    f"line {lines[name]}: both branches give a variable the same type; {_advice(name, then, other)}"
                )
