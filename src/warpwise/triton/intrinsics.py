"""Functions that a rewritten kernel body calls (see ``rewrite``), and replacements of ``triton.language`` functions."""

from __future__ import annotations

import enum
import functools
import inspect
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import triton.language as tl

from warpwise.cuda.errors import CompileError, KernelTimeout
from warpwise.triton import reductions, scalar_functions
from warpwise.triton.builder import values_of
from warpwise.triton.carried import Lines, LoopRange, Region
from warpwise.triton.compat import TritonSemantic, bind_semantic
from warpwise.triton.undefined import report

_DOT_SCALED = inspect.unwrap(tl.dot_scaled)


class Intrinsics:
    """Functions that a rewritten kernel body calls (see ``rewrite``)."""

    def __init__(self, semantic: TritonSemantic) -> None:
        self.semantic = semantic
        self.deadline = float("inf")
        self._language_functions: dict[Any, Callable[..., Any]] = {}
        self.timeout = 0.0
        self.waits = False  # the latest iteration of ``while`` read the same values as the one before
        self.let_others_run: Callable[[], None] = lambda: None
        self.range: Callable[..., LoopRange] = functools.partial(loop_range, semantic)
        self.kernel_code: Any = None  # of the kernel that runs
        self.branch_types: dict[int, dict[str, tuple[Any, bool]]] = {}  # by the number of an ``if`` of that kernel

    def to_tensor(self, value: Any) -> Any:
        """Convert numbers to tensors, as the compiler does on assignment; tensors are returned unchanged."""
        if isinstance(value, tl.tensor):
            return value
        if type(value) in (tuple, list):
            return type(value)(self.to_tensor(item) for item in value)
        return self.semantic.to_tensor(value, False)

    def first_items(self, value: Any, count: int) -> Any:
        """Return the value of an assignment to ``count`` names: the compiler ignores items in excess."""
        return value[:count] if isinstance(value, (tuple, list, tl.tuple)) and len(value) > count else value

    def constexpr_value(self, value: Any) -> Any:
        """Return ``name.value``: a ``tl.constexpr`` parameter is a Python value here, which is its own ``value``."""
        python = isinstance(value, (bool, int, float, str, enum.Enum, tl.dtype, tuple)) or value is None
        return value if python else value.value

    def discard(self, value: Any) -> None:
        """Called with the result of a call that is a statement, which the kernel does not use."""
        builder = self.semantic.builder
        handle, releases = builder.latest_scalar_atomic
        if handle is not None and isinstance(value, tl.tensor) and value.handle is handle:
            builder.tracker.discard_atomic(releases)

    def is_language_function(self, value: Any) -> bool:
        return bind_semantic(value, self.semantic) is not None

    def language_function(self, value: Any) -> Any:
        """Return ``value``, a ``triton.language`` function imported by name, bound to the interpreter."""
        if value not in self._language_functions:
            self._language_functions[value] = bind_semantic(value, self.semantic) or value
        return self._language_functions[value]

    def _condition(self, value: tl.tensor) -> tl.tensor:
        value = _number(value)
        return value if value.type.scalar.is_int1() else value != 0

    def logical_and(self, left: Any, right: Callable[[], Any]) -> Any:
        """``left and right``, elementwise if an operand is a tensor."""
        if not isinstance(left, tl.tensor):
            return left and right()
        other = right()
        if not isinstance(other, tl.tensor):
            return left if other else other
        return self._condition(left) & self._condition(other)

    def logical_or(self, left: Any, right: Callable[[], Any]) -> Any:
        """``left or right``, elementwise if an operand is a tensor."""
        if not isinstance(left, tl.tensor):
            return left or right()
        other = right()
        if not isinstance(other, tl.tensor):
            return other or left
        return self._condition(left) | self._condition(other)

    def logical_not(self, value: Any) -> Any:
        """``not value``, elementwise for a tensor."""
        return _number(value) == 0 if isinstance(value, tl.tensor) else not value

    def concatenate(self, left: Any, right: Any) -> Any:
        """``left + right`` where one is a list or tuple literal: the compiler makes no difference between the two."""
        if all(isinstance(value, (list, tuple, tl.tuple)) for value in (left, right)):
            return [*left, *right] if isinstance(left, list) else (*left, *right)
        return left + right

    def scalar_condition(self, value: Any) -> Any:
        """Return the condition of an ``if`` or ``while``; raise ``CompileError`` for a block of several elements."""
        if isinstance(value, tl.tensor) and value.handle.data.size != 1 and not scalar_functions.in_progress():
            raise CompileError(
                f"a condition must be a scalar, got a block of shape {value.handle.data.shape}: use tl.where or a mask"
            )
        return bool(self.defined_item(self._condition(value))) if isinstance(value, tl.tensor) else value

    def conditional(self, condition: Any, value: Callable[[], Any], other: Callable[[], Any]) -> Any:
        """``value if condition else other``, a tensor if ``condition`` is one."""
        result = value() if self.scalar_condition(condition) else other()
        return self.to_tensor(result) if isinstance(condition, tl.tensor) else result

    def branch(self, value: Any, lines: Lines, number: int) -> Region:
        """Return the region of an ``if`` with the condition ``value``; ``number``: 0 in a loop that is unrolled."""
        frame = sys._getframe(1)
        checked = isinstance(value, tl.tensor) and not scalar_functions.in_progress()
        region = Region(lines, False, frame.f_locals if checked else None)
        region.taken = self.scalar_condition(value)
        if checked and number and frame.f_code is self.kernel_code:
            region.seen = self.branch_types.setdefault(number, {})
        return region

    def loop(self, values: Iterable[Any] | None, lines: Lines) -> Region:
        """Return the region of a loop; ``values``: its iterations, or None for ``while``."""
        checked = (values is None or isinstance(values, LoopRange)) and not scalar_functions.in_progress()
        region = Region(lines, True, sys._getframe(1).f_locals if checked and lines else None)
        region.values = () if values is None else values
        return region

    def assertion(self, condition: Any, message: Callable[[], Any]) -> None:
        """``assert condition, message``: ``tl.device_assert``, which tests each element of a block."""
        if isinstance(condition, tl.tensor):
            failed = not bool(values_of(condition.handle).all())
            condition = self._condition(condition)
        else:
            failed = not condition
            condition = self.semantic.to_tensor(bool(condition))
        if failed:
            self.semantic.device_assert(condition, str(getattr(message(), "value", message())), None)

    def defined_item(self, block: tl.tensor) -> Any:
        """Return the value of a scalar that decides which statements run; report one that is undefined."""
        builder = self.semantic.builder
        report(builder.recorder, block.handle, None, "executed", "a condition or a bound depends on an undefined value")
        return scalar_item(block)

    def _fold(self, plain: Callable[..., Any], pair: Callable[[Any, Any], Any], values: tuple[Any, ...]) -> Any:
        if not any(isinstance(value, tl.tensor) for value in values):
            return plain(*[value.value if isinstance(value, tl.constexpr) else value for value in values])
        result = values[0]
        for value in values[1:]:
            result = pair(result, value)
        return result

    def max(self, *values: Any) -> Any:
        return self._fold(max, tl.maximum, values)

    def min(self, *values: Any) -> Any:
        return self._fold(min, tl.minimum, values)

    def check_timeout(self) -> None:
        """Raise ``KernelTimeout`` after the deadline; called once per loop iteration and per program."""
        if time.monotonic() > self.deadline:
            waits = ": it waits for a value in memory that no program stores" if self.waits else ""
            raise KernelTimeout(f"still running after {self.timeout:g} s{waits}")
        self.waits = False

    def while_iteration(self) -> None:
        """Called at each iteration of ``while``; lets other programs run if this one waits for a value in memory."""
        self.check_timeout()
        self.waits = self.semantic.builder.memory.polls()
        if self.waits:
            self.let_others_run()


def _number(value: tl.tensor) -> tl.tensor:
    """Return a pointer's address, which is 0 for a null pointer, or ``value`` if it is not a pointer."""
    return value.to(tl.int64) if value.type.scalar.is_ptr() else value


def scalar_item(block: tl.tensor) -> Any:
    """Return the value of a scalar tensor; raise ``ValueError`` for a block of several elements."""
    values = values_of(block.handle)
    if values.size != 1 and scalar_functions.in_progress():
        return scalar_functions.common_value(values)
    if values.size != 1:
        raise ValueError(
            f"expected a scalar, got a block of shape {values.shape}: use tl.where, a mask, or reduce it first"
        )
    return values.item()


def loop_range(semantic: TritonSemantic, first: Any, last: Any = None, step: Any = None, **hints: Any) -> LoopRange:
    """``range`` and ``tl.range``: the loop variable has the common type of the bounds and the step."""
    start, stop = (0, first) if last is None else (first, last)
    step = 1 if step is None else step
    types = [semantic.to_tensor(bound).dtype for bound in (start, stop, step)]
    if not all(dtype.is_int() for dtype in types):
        raise CompileError(f"the bounds and the step of a loop must be integers, got {', '.join(map(str, types))}")
    return LoopRange(range(int(start), int(stop), int(step)), functools.reduce(semantic.integer_promote_impl, types))


def language_overrides(semantic: TritonSemantic) -> dict[str, Callable[..., Any]]:
    """Return replacements for functions of ``triton.language``, by name."""

    def static_range(first: Any, last: Any = None, step: Any = None, **hints: Any) -> range:
        start, stop = (0, first) if last is None else (first, last)
        return range(int(start), int(stop), 1 if step is None else int(step))

    def static_assert(condition: Any, message: Any = "", **ignored: Any) -> None:
        if not condition:
            text = getattr(message, "value", message)
            raise AssertionError(f"tl.static_assert: {text}" if text else "tl.static_assert")

    def identity(value: Any, *hints: Any, **ignored: Any) -> Any:
        return value

    @functools.wraps(_DOT_SCALED)
    def dot_scaled(*args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(_DOT_SCALED).bind(*args, **kwargs)
        for name in ("lhs_format", "rhs_format"):  # Triton's code reads their ``value``
            form = given.arguments[name]
            given.arguments[name] = form if isinstance(form, tl.constexpr) else tl.constexpr(form)
        given.arguments["_semantic"] = semantic
        return _DOT_SCALED(*given.args, **given.kwargs)

    return {
        "dot_scaled": dot_scaled,
        "range": functools.partial(loop_range, semantic),
        "static_range": static_range,
        "static_assert": static_assert,
        "static_print": print,
        "multiple_of": identity,
        "max_contiguous": identity,
        "max_constancy": identity,
        "reduce": functools.partial(reductions.reduce, _semantic=semantic),
        "map_elementwise": scalar_functions.map_elementwise,
        "associative_scan": functools.partial(reductions.associative_scan, _semantic=semantic),
    }
