"""Correctly rounded arithmetic in any binary format, by fractions: the reference for floating-point instructions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

NEAREST, ZERO, UP, DOWN = "nearest", "zero", "up", "down"


@dataclass(frozen=True)
class Format:
    """A binary format: bits of precision, exponents of the smallest and largest normal numbers."""

    precision: int
    smallest: int
    largest: int

    @property
    def maximum(self) -> Fraction:
        return (2 - Fraction(1, 2 ** (self.precision - 1))) * Fraction(2) ** self.largest

    def spacing(self, value: float) -> float:
        """Return the unit in the last place (ulp) of ``value``."""
        exponent = math.frexp(value)[1] - 1 if value else self.smallest
        return math.ldexp(1.0, max(exponent, self.smallest) - self.precision + 1)


HALF, BFLOAT16, SINGLE, DOUBLE = (
    Format(11, -14, 15),
    Format(8, -126, 127),
    Format(24, -126, 127),
    Format(53, -1022, 1023),
)


def rounded(value: Fraction, form: Format, mode: str = NEAREST) -> float:
    """Round ``value`` (not 0) to the format."""
    sign, magnitude = (-1, -value) if value < 0 else (1, value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent -= magnitude < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, form.smallest) - form.precision + 1)
    whole, rest = divmod(magnitude, unit)
    away = {
        NEAREST: 2 * rest > unit or (2 * rest == unit and whole % 2 == 1),
        ZERO: False,
        UP: sign > 0,
        DOWN: sign < 0,
    }
    made = (whole + (away[mode] and rest > 0)) * unit
    if made > form.maximum:
        return sign * (float(form.maximum) if mode == ZERO or mode == (DOWN if sign > 0 else UP) else math.inf)
    return math.copysign(float(made), sign)


def add(a: float, b: float, form: Format, mode: str = NEAREST) -> float:
    if not (math.isfinite(a) and math.isfinite(b)):
        return a + b
    total = Fraction(a) + Fraction(b)
    return rounded(total, form, mode) if total else _zero(a, b, mode)


def multiply(a: float, b: float, form: Format, mode: str = NEAREST) -> float:
    if not (math.isfinite(a) and math.isfinite(b)) or a == 0 or b == 0:
        return a * b
    return rounded(Fraction(a) * Fraction(b), form, mode)


def fma(a: float, b: float, c: float, form: Format, mode: str = NEAREST) -> float:
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b + c
    if not math.isfinite(c):
        return c
    total = Fraction(a) * Fraction(b) + Fraction(c)
    sign = math.copysign(1.0, a) * math.copysign(1.0, b)
    if total:
        return rounded(total, form, mode)
    return _zero(math.copysign(0.0, sign), c, mode) if a == 0 or b == 0 else _zero(sign, -sign, mode)


def divide(a: float, b: float, form: Format, mode: str = NEAREST) -> float:
    if math.isnan(a) or math.isnan(b) or (math.isinf(a) and math.isinf(b)) or a == b == 0:
        return math.nan
    sign = math.copysign(1.0, a) * math.copysign(1.0, b)
    if math.isinf(a) or b == 0:
        return sign * math.inf
    return sign * 0.0 if a == 0 or math.isinf(b) else rounded(Fraction(a) / Fraction(b), form, mode)


def root(a: float, form: Format, mode: str = NEAREST) -> float:
    if math.isnan(a) or a < 0:
        return math.nan
    if a == 0 or math.isinf(a):
        return a
    value = Fraction(a)
    scale = 2 * form.precision + 8 + max(0, -math.frexp(a)[1]) + 1074  # enough bits for an integer square root
    integer = value.numerator * 4**scale // value.denominator
    found = math.isqrt(integer)
    exact = Fraction(found * found, 4**scale) == value
    return rounded(Fraction(found, 2**scale) if exact else Fraction(2 * found + 1, 2 ** (scale + 1)), form, mode)


def _zero(a: float, b: float, mode: str) -> float:
    """Return the signed zero of a sum that is exactly 0."""
    same = math.copysign(1.0, a) == math.copysign(1.0, b) and a == b
    return a if same else -0.0 if mode == DOWN else 0.0


def minimum(a: float, b: float) -> float:
    """If one operand is NaN, return the other; -0 < +0."""
    if math.isnan(a) or math.isnan(b):
        return b if math.isnan(a) else a
    return min(a, b) if a != b else a if math.copysign(1.0, a) < 0 else b


def maximum(a: float, b: float) -> float:
    return -minimum(-a, -b)


def integer(value: float, bits: int, sign: bool, to: Callable[[Fraction], int], nan: int) -> int:
    """Convert to an integer of ``bits`` bits, saturating; ``to`` is the rounding function."""
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if sign else (0, (1 << bits) - 1)
    if math.isnan(value):
        return nan
    if math.isinf(value):
        return high if value > 0 else low
    return min(max(to(Fraction(value)), low), high)
