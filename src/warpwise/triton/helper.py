"""What a rewritten kernel body calls (see ``rewrite``), and the functions of the language that are replaced whole."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import triton.language as tl

from warpwise.cuda.errors import CompileError, KernelTimeout
from warpwise.triton import reductions
from warpwise.triton.builder import values_of
from warpwise.triton.compat import TritonSemantic, bound_function


class Helper:
    """What a rewritten kernel body calls (see ``rewrite``)."""

    def __init__(self, semantic: TritonSemantic) -> None:
        self.semantic = semantic
        self.deadline = float("inf")
        self._bound: dict[Any, Callable[..., Any]] = {}
        self.timeout = 0.0

    def value(self, value: Any) -> Any:
        """Numbers as tensors; tensors and everything else as they are."""
        if isinstance(value, tl.tensor):
            return value
        if type(value) is tuple:
            return tuple(self.value(item) for item in value)
        return self.semantic.to_tensor(value, False)

    def is_language(self, value: Any) -> bool:
        return bound_function(value, self.semantic) is not None

    def bound(self, value: Any) -> Any:
        """A function of the language that the kernel's module imported by name."""
        if value not in self._bound:
            self._bound[value] = bound_function(value, self.semantic) or value
        return self._bound[value]

    def _condition(self, value: tl.tensor) -> tl.tensor:
        return value if value.type.scalar.is_int1() else value != 0

    def both(self, left: Any, right: Callable[[], Any]) -> Any:
        """``left and right``, element by element if a tensor is among them."""
        if not isinstance(left, tl.tensor):
            return left and right()
        other = right()
        if not isinstance(other, tl.tensor):
            return left if other else other
        return self._condition(left) & self._condition(other)

    def either(self, left: Any, right: Callable[[], Any]) -> Any:
        """``left or right``, element by element if a tensor is among them."""
        if not isinstance(left, tl.tensor):
            return left or right()
        other = right()
        if not isinstance(other, tl.tensor):
            return other or left
        return self._condition(left) | self._condition(other)

    def negated(self, value: Any) -> Any:
        """``not value``, element by element for a tensor."""
        return value == 0 if isinstance(value, tl.tensor) else not value

    def truth(self, value: Any) -> Any:
        """A condition of ``if`` or ``while``, which no block of several elements can be."""
        if isinstance(value, tl.tensor) and value.handle.data.size != 1:
            raise CompileError(
                f"a condition must be a scalar, got a block of shape {value.handle.data.shape}: use tl.where or a mask"
            )
        return bool(value) if isinstance(value, tl.tensor) else value

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

    def tick(self) -> None:
        """Once per turn of a loop and per program: whether the time is up."""
        if time.monotonic() > self.deadline:
            raise KernelTimeout(f"still running after {self.timeout:g} s")


def only(block: tl.tensor) -> Any:
    """The value of a scalar; a block of several has none."""
    values = values_of(block.handle)
    if values.size != 1:
        raise ValueError(
            f"a block of shape {values.shape} has no single truth value or integer: use tl.where, a mask, or reduce it first"
        )
    return values.item()


def language() -> dict[str, Callable[..., Any]]:
    """Functions of ``triton.language`` that the interpreter takes over whole."""

    def counted(first: Any, last: Any = None, step: Any = None, **hints: Any) -> range:
        start, stop = (0, first) if last is None else (first, last)
        return range(int(start), int(stop), 1 if step is None else int(step))

    def static_assert(condition: Any, message: Any = "", **ignored: Any) -> None:
        if not condition:
            raise AssertionError(f"tl.static_assert: {getattr(message, 'value', message)}")

    def hinted(value: Any, *hints: Any, **ignored: Any) -> Any:
        return value

    return {
        "range": counted,
        "static_range": counted,
        "static_assert": static_assert,
        "static_print": print,
        "multiple_of": hinted,
        "max_contiguous": hinted,
        "max_constancy": hinted,
        "reduce": reductions.reduce,
        "associative_scan": reductions.associative_scan,
    }
