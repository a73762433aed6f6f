"""Scalars that change from launch to launch, marked while a launch is recorded, so that a replay passes new values."""

from __future__ import annotations

import operator
from typing import Any


class VaryingScalar:
    """The placeholder of argument number ``index`` while a launch is recorded.

    A launcher may pass it to kernels. Any computation with it works and sets ``read``: a replay would repeat the result
    for the old value, so such a launch cannot be recorded.
    """

    __slots__ = ("index", "read", "value")

    def __init__(self, index: int, value: float) -> None:
        self.index, self.value, self.read = index, value, False

    def plain(self) -> int | float:
        self.read = True
        return self.value

    def __float__(self) -> float:
        return float(self.plain())

    def __int__(self) -> int:
        return int(self.plain())

    def __index__(self) -> int:
        return operator.index(self.plain())  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return bool(self.plain())

    def __hash__(self) -> int:
        return hash(self.plain())


def _binary(function: Any, swapped: bool) -> Any:
    def method(self: VaryingScalar, other: Any) -> Any:
        other = other.plain() if isinstance(other, VaryingScalar) else other
        return function(other, self.plain()) if swapped else function(self.plain(), other)

    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift"):
    _function = getattr(operator, _name + "_" if _name in ("and", "or") else _name)
    setattr(VaryingScalar, f"__{_name}__", _binary(_function, swapped=False))
    setattr(VaryingScalar, f"__r{_name}__", _binary(_function, swapped=True))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(VaryingScalar, f"__{_name}__", _binary(getattr(operator, _name), swapped=False))
for _name in ("neg", "pos", "abs", "invert"):
    setattr(VaryingScalar, f"__{_name}__", lambda self, function=getattr(operator, _name): function(self.plain()))


def plain(value: Any) -> Any:
    """The value of a varying scalar, without marking it as read; anything else as it is."""
    return value.value if isinstance(value, VaryingScalar) else value
