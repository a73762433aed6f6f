"""libdevice's functions with a rounding mode in their name: ``__nv_fadd_rz``, ``__nv_double2int_ru`` ...

Except where NumPy rounds as required, each element is computed exactly, as a rational number, and rounded once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from warpwise.triton.numerics import to_integer

Array = np.ndarray[Any, np.dtype[Any]]

_ARITHMETIC = re.compile(r"[fd]?(add|sub|mul|div|rcp|sqrt|rsqrt|fmaf?)_(rn|rz|rd|ru)")
_TO_INTEGER = re.compile(r"(?:float|double)2(int|uint|ll|ull)_(rn|rz|rd|ru)")
_TO_FLOAT = re.compile(r"(?:int|uint|ll|ull|double)2(float|double)_(rn|rz|rd|ru)")
_TYPES = {"int": np.int32, "uint": np.uint32, "ll": np.int64, "ull": np.uint64, "float": np.float32,
          "double": np.float64}  # fmt: skip
_WHOLE: dict[str, Callable[[Array], Array]] = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}
_EXACT: dict[str, Callable[..., Fraction]] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y,
    "rcp": lambda x: 1 / x, "fma": lambda x, y, z: x * y + z,
}  # fmt: skip
_NEAREST: dict[str, Callable[..., Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "rcp": lambda x: 1 / x, "sqrt": np.sqrt,
    "fma": lambda x, y, z: x * y + z, "rsqrt": lambda x: (1 / np.sqrt(x.astype(np.float64))).astype(x.dtype),
}  # fmt: skip


def function(name: str) -> Callable[..., Array] | None:
    """Return the function of this name without ``__nv_``, such as "fadd_rz"; None if the name has no rounding mode."""
    if found := _ARITHMETIC.fullmatch(name):
        operation, mode = ("fma" if found[1].startswith("fma") else found[1]), found[2]
        return lambda *operands: arithmetic(operation, mode, *operands)
    if found := _TO_INTEGER.fullmatch(name):
        kind, whole = np.dtype(_TYPES[found[1]]), _WHOLE[found[2]]
        # Triton declares the result of an unsigned conversion as signed; the bits are the same.
        return lambda values: to_integer(whole(values), kind).view(f"i{kind.itemsize}")
    if found := _TO_FLOAT.fullmatch(name):
        kind, mode = np.dtype(_TYPES[found[1]]), found[2]
        return lambda values: _each(mode, kind, values.astype(kind), lambda x: Fraction(x), (values,))
    return None


def fused(x: Array, y: Array, z: Array) -> Array:
    """Return ``x * y + z`` of numbers of at most 32 bits in float64; convert it to their type to round it once.

    The product is exact in float64. The sum is rounded to odd, so that the conversion rounds it correctly.
    """
    product, addend = x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)
    total = np.asarray(product + addend)
    part = total - product
    error = (product - (total - part)) + (addend - part)
    even = (total.view(np.int64) & 1) == 0
    inexact = np.isfinite(total) & (error != 0) & even
    return np.where(inexact, np.nextafter(total, np.copysign(np.inf, error)), total)


def arithmetic(operation: str, mode: str, *operands: Array) -> Array:
    """Return the sum, product, quotient ... of the operands, rounded once."""
    if operation == "fma" and mode == "rn" and operands[0].dtype == np.float32:
        return fused(*operands).astype(np.float32)
    nearest = np.asarray(_NEAREST[operation](*operands))
    if mode == "rn" and operation != "fma":
        return nearest
    if operation == "sqrt":
        return _square_root(mode, operands[0], nearest)
    return _each(mode, nearest.dtype, nearest, _EXACT[operation], operands)


def _each(
    mode: str, kind: np.dtype[Any], nearest: Array, exact: Callable[..., Fraction], operands: tuple[Array, ...]
) -> Array:
    """Round each exact result. Keep ``nearest`` if the exact result is 0 or infinite, or an operand is not finite."""
    result = np.array(np.broadcast_to(nearest, np.broadcast_shapes(*(operand.shape for operand in operands))))
    columns = [np.broadcast_to(operand, result.shape) for operand in operands]
    for index in np.ndindex(result.shape):
        values = [column[index].item() for column in columns]
        if all(map(math.isfinite, values)):
            try:
                value = exact(*map(Fraction, values))
            except ZeroDivisionError:
                continue
            if value:
                result[index] = _rounded(value, mode, kind)
            elif mode == "rd" and len({math.copysign(1, value) for value in values}) > 1:
                result[index] = -0.0  # x - x rounded down
    return result


def _rounded(exact: Fraction, mode: str, kind: np.dtype[Any]) -> Any:
    largest = Fraction(float(np.finfo(kind).max))
    if abs(exact) > largest:
        outwards = (mode == "ru" and exact > 0) or (mode == "rd" and exact < 0)
        beyond = mode == "rn" and abs(exact) >= largest + Fraction(float(np.spacing(np.finfo(kind).max))) / 2
        return math.copysign(math.inf if outwards or beyond else float(largest), exact)
    value = kind.type(float(exact))
    if not np.isfinite(value):
        value = kind.type(math.copysign(float(largest), exact))
    held = Fraction(float(value))
    below = value if held <= exact else np.nextafter(value, kind.type(-np.inf))
    above = value if held >= exact else np.nextafter(value, kind.type(np.inf))
    if mode == "rn":
        down, up = exact - Fraction(float(below)), Fraction(float(above)) - exact
        return value if down == up else below if down < up else above
    return below if mode == "rd" or (mode == "rz" and exact > 0) else above


def _square_root(mode: str, operand: Array, nearest: Array) -> Array:
    result = np.array(nearest)
    for index in np.ndindex(result.shape):
        root = result[index]
        if np.isfinite(root) and root > 0:
            error = Fraction(root.item()) ** 2 - Fraction(operand[index].item())
            if error > 0 and mode in ("rd", "rz"):
                result[index] = np.nextafter(root, root.dtype.type(0))
            elif error < 0 and mode == "ru":
                result[index] = np.nextafter(root, root.dtype.type(np.inf))
    return result
