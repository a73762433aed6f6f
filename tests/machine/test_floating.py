"""Floating-point instructions and conversions: correctly rounded results, and documented error bounds elsewhere."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import starmap

import numpy as np
import pytest
from tests.machine import rounding
from tests.machine.expression_tables import Table, evaluate, floats, integers
from tests.machine.raw_launch import ARCHITECTURES
from tests.machine.rounding import DOUBLE, DOWN, NEAREST, SINGLE, UP, ZERO, Format, maximum, minimum
from tests.sampled import thinned


def exact(operation, form: Format, mode: str = NEAREST):
    """Return an operation of rounding.py as a function of a, b, c."""
    count = {rounding.root: 1, rounding.fma: 3}.get(operation, 2)
    return lambda a, b, c: operation(*(a, b, c)[:count], form, mode)


def arithmetic(prefix: str, form: Format) -> list:
    """Return rows for the intrinsics of all four rounding modes."""
    names = {"add": rounding.add, "mul": rounding.multiply, "div": rounding.divide, "sqrt": rounding.root}
    modes = {"rn": NEAREST, "rz": ZERO, "ru": UP, "rd": DOWN}
    rows = [
        (f"__{prefix}{name}_{suffix}({'a' if name == 'sqrt' else 'a, b'})", exact(operation, form, mode))
        for name, operation in names.items()
        for suffix, mode in modes.items()
    ]
    fused = "__fmaf" if prefix == "f" else "__fma"
    rows += [(f"{fused}_{suffix}(a, b, c)", exact(rounding.fma, form, mode)) for suffix, mode in modes.items()]
    rows += [
        (f"__{prefix}rcp_{suffix}(a)", lambda a, b, c, mode=mode: rounding.divide(1.0, a, form, mode))
        for suffix, mode in modes.items()
    ]
    return rows


def saturated(value: float) -> float:
    return 0.0 if math.isnan(value) or value <= 0 else min(value, 1.0)


def flushed(value: float) -> float:
    return value if abs(value) >= 2.0**-126 or math.isnan(value) else math.copysign(0.0, value)


def whole(to):
    def of(a: float, b: float, c: float) -> float:
        return math.copysign(float(to(Fraction(a))), a) if math.isfinite(a) else a

    return of


def away(value: Fraction) -> int:
    return math.floor(abs(value) + Fraction(1, 2)) * (1 if value > 0 else -1)


COMPARISONS = (
    ("a < b", lambda a, b, c: a < b), ("a <= b", lambda a, b, c: a <= b), ("a == b", lambda a, b, c: a == b),
    ("a != b", lambda a, b, c: a != b), ("!(a < b)", lambda a, b, c: not a < b),
    ("!(a >= b)", lambda a, b, c: not a >= b), ("!(a == b)", lambda a, b, c: a != b),
    ("a > b && b > c", lambda a, b, c: a > b > c), ("isnan(a)", lambda a, b, c: math.isnan(a)),
    ("isinf(a)", lambda a, b, c: math.isinf(a)), ("a != a || b != b", lambda a, b, c: math.isnan(a) or math.isnan(b)),
    ("a < b || !(b < c)", lambda a, b, c: a < b or not b < c),
    ("signbit(a) != 0", lambda a, b, c: math.copysign(1.0, a) < 0),
    ("a > b ? b : c", lambda a, b, c: b if a > b else c),
)  # fmt: skip
# The sign of a NaN is not tested.
SINGLES = Table("singles", ("float", "float", "float"), "float", (
    *arithmetic("f", SINGLE), *COMPARISONS,
    ("a / b", exact(rounding.divide, SINGLE)), ("sqrtf(a)", exact(rounding.root, SINGLE)),
    ("fminf(a, b)", lambda a, b, c: minimum(a, b)), ("fmaxf(a, b)", lambda a, b, c: maximum(a, b)),
    ("fmaxf(a, fmaxf(b, c))", lambda a, b, c: maximum(a, maximum(b, c))),
    ("nan_max(a, b)", lambda a, b, c: math.nan if math.isnan(a) or math.isnan(b) else maximum(a, b)),
    ("__saturatef(a)", lambda a, b, c: saturated(a)),
    ("__saturatef(__fadd_rn(a, b))", lambda a, b, c: saturated(rounding.add(a, b, SINGLE))),
    ("fabsf(a) - fabsf(b)", lambda a, b, c: rounding.add(abs(a), -abs(b), SINGLE)),
    ("__fmul_rn(-a, fabsf(c))", lambda a, b, c: rounding.multiply(-a, abs(c), SINGLE)),
    ("ftz_fma(a, b, c)", lambda a, b, c: flushed(rounding.fma(flushed(a), flushed(b), flushed(c), SINGLE))),
    ("ftz_add(a, b)", lambda a, b, c: flushed(rounding.add(flushed(a), flushed(b), SINGLE))),
    ("ftz_mul(a, b)", lambda a, b, c: saturated(flushed(rounding.multiply(flushed(a), flushed(b), SINGLE)))),
    ("ftz_less(a, b)", lambda a, b, c: flushed(a) < flushed(b)),
    ("floorf(a)", whole(math.floor)), ("ceilf(a)", whole(math.ceil)), ("truncf(a)", whole(math.trunc)),
    ("rintf(a)", whole(round)), ("roundf(a)", whole(away)),
    ("copysignf(a, b)", lambda a, b, c: math.copysign(a, b)),
    ("fmodf(a, b)", lambda a, b, c: remainder(a, b, math.trunc)),
    ("remainderf(a, b)", lambda a, b, c: remainder(a, b, round)),
))  # fmt: skip
DOUBLES = Table("doubles", ("double", "double", "double"), "double", (
    *arithmetic("d", DOUBLE), *COMPARISONS,
    ("a / b", exact(rounding.divide, DOUBLE)), ("sqrt(a)", exact(rounding.root, DOUBLE)),
    ("fmin(a, b)", lambda a, b, c: minimum(a, b)), ("fmax(a, b)", lambda a, b, c: maximum(a, b)),
    ("fabs(a) - fabs(b)", lambda a, b, c: rounding.add(abs(a), -abs(b), DOUBLE)),
    ("a * 2.5", lambda a, b, c: rounding.multiply(a, 2.5, DOUBLE)),
    ("a + 0x1p-1022", lambda a, b, c: rounding.add(a, 2.0**-1022, DOUBLE)),
    ("floor(a)", whole(math.floor)), ("ceil(a)", whole(math.ceil)), ("trunc(a)", whole(math.trunc)),
    ("rint(a)", whole(round)), ("fmod(a, b)", lambda a, b, c: remainder(a, b, math.trunc)),
))  # fmt: skip


def remainder(a: float, b: float, to) -> float:
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or b == 0:
        return math.nan
    if math.isinf(b):
        return a
    return (
        math.copysign(float(abs(left)), left)
        if (left := Fraction(a) - to(Fraction(a) / Fraction(b)) * Fraction(b))
        else math.copysign(0.0, a)
    )


def from_float(name: str, bits: int, sign: bool, nan: int) -> list:
    """Return rows for __float2int_rn and similar intrinsics."""
    modes = {"rn": round, "rz": math.trunc, "ru": math.ceil, "rd": math.floor}
    return [
        (f"{name}_{suffix}(a)", lambda a, b, c, to=to: rounding.integer(a, bits, sign, to, nan))
        for suffix, to in modes.items()
    ]


TOP = 1 << 63
INTEGERS_OF_SINGLES = Table(
    "integers_of_singles",
    ("float",),
    "long long",
    (
        *from_float("__float2int", 32, True, 0),
        *from_float("(ll)__float2uint", 32, False, 0),
        *from_float("__float2ll", 64, True, TOP),
        *from_float("(ll)__float2ull", 64, False, TOP),
        ("to_u8(a)", lambda a, b, c: rounding.integer(a, 8, False, round, 0)),
        ("to_s8(a)", lambda a, b, c: rounding.integer(a, 8, True, math.trunc, 0)),
        ("to_s16(a)", lambda a, b, c: rounding.integer(a, 16, True, math.trunc, 0)),
        ("ftz_up(a)", lambda a, b, c: rounding.integer(flushed(a), 32, True, math.ceil, 0)),
    ),
)
INTEGERS_OF_DOUBLES = Table(
    "integers_of_doubles",
    ("double",),
    "long long",
    (
        *from_float("__double2int", 32, True, -(1 << 31)),
        *from_float("(ll)__double2uint", 32, False, 1 << 31),
        *from_float("__double2ll", 64, True, TOP),
        *from_float("(ll)__double2ull", 64, False, TOP),
        ("(ll)__double2hiint(a)", lambda a, b, c: int(np.float64(a).view(np.int64)) >> 32),
        ("(ll)(u)__double2loint(a)", lambda a, b, c: int(np.float64(a).view(np.int64)) & 0xFFFFFFFF),
    ),
)


def to_float(name: str, form: Format, convert) -> list:
    modes = {"rn": NEAREST, "rz": ZERO, "ru": UP, "rd": DOWN}

    def of(mode: str):
        return lambda a, b, c: rounding.rounded(Fraction(value), form, mode) if (value := convert(a)) else 0.0

    return [(f"__{name}_{suffix}", of(mode)) for suffix, mode in modes.items()]


def wrap(bits: int, sign: bool, at: int = 0):
    def of(value: int) -> int:
        part = int(value) >> at & (1 << bits) - 1
        return part - (part >> (bits - 1) << bits) if sign else part

    return of


def called(rows: list, argument: str) -> list:
    return [(f"{text}({argument})", function) for text, function in rows]


FLOATS_OF_INTEGERS = Table("floats_of_integers", ("long long",), "double", (
    *called(to_float("int2float", SINGLE, wrap(32, True)), "(int)a"),
    *called(to_float("uint2float", SINGLE, wrap(32, False)), "(u)a"),
    *called(to_float("ll2float", SINGLE, wrap(64, True)), "a"),
    *called(to_float("ull2float", SINGLE, wrap(64, False)), "a"),
    *called(to_float("ll2double", DOUBLE, wrap(64, True)), "a"),
    *called(to_float("ull2double", DOUBLE, wrap(64, False)), "a"),
    ("(double)(int)a", lambda a, b, c: float(wrap(32, True)(a))),
    ("(double)(u)a", lambda a, b, c: float(wrap(32, False)(a))),
    ("(float)(signed char)a", lambda a, b, c: float(wrap(8, True)(a))),
    ("(float)(unsigned char)(a >> 16)", lambda a, b, c: float(wrap(8, False, 16)(a))),
    ("(float)(signed char)(a >> 8)", lambda a, b, c: float(wrap(8, True, 8)(a))),
    ("(float)(short)(a >> 16)", lambda a, b, c: float(wrap(16, True, 16)(a))),
    ("(float)(unsigned short)a", lambda a, b, c: float(wrap(16, False)(a))),
    ("(double)(short)a", lambda a, b, c: float(wrap(16, True)(a))),
))  # fmt: skip
NARROWED = Table(
    "narrowed",
    ("double",),
    "double",
    (
        *(
            (
                f"(double)__double2float_{suffix}(a)",
                lambda a, b, c, mode=mode: rounding.add(a, math.copysign(0.0, a), SINGLE, mode),
            )
            for suffix, mode in {"rn": NEAREST, "rz": ZERO, "ru": UP, "rd": DOWN}.items()
        ),
    ),
)


def asm(kind: str, name: str, text: str, operands: str = "ab") -> str:
    arguments = ", ".join(f"float {each}" for each in operands)
    inputs = ", ".join(f'"f"({each})' for each in operands)
    places = ", ".join(f"%{place + 1}" for place in range(len(operands)))
    code = "=f" if kind == "float" else "=r"
    statement = f'asm("{text} %0, {places};" : "{code}"(d) : {inputs})'
    return f"__device__ {kind} {name}({arguments}) {{ {kind} d; {statement}; return d; }}\n"


PREAMBLE = "typedef unsigned u; typedef long long ll;\n" + "".join([
    asm("float", "ftz_fma", "fma.rn.ftz.f32", "abc"), asm("float", "ftz_add", "add.ftz.f32"),
    asm("float", "ftz_mul", "mul.ftz.sat.f32"), asm("int", "ftz_less_", "set.lt.ftz.s32.f32"),
    "__device__ float ftz_less(float a, float b) { return -ftz_less_(a, b); }\n",
    asm("int", "to_u8", "cvt.rni.sat.u8.f32", "a"), asm("int", "to_s8_", "cvt.rzi.s8.f32", "a"),
    "__device__ int to_s8(float a) { return (signed char)to_s8_(a); }\n",
    asm("int", "to_s16", "cvt.rzi.s16.f32", "a"), asm("int", "ftz_up", "cvt.rpi.ftz.s32.f32", "a"),
    "#if __CUDA_ARCH__ >= 800\n", asm("float", "nan_max", "max.NaN.f32"),
    "#else\n__device__ float nan_max(float a, float b) { return a != a ? a : b != b ? b : fmaxf(a, b); }\n#endif\n",
    asm("float", "m_tanh", "tanh.approx.f32", "a"),
    *(asm("float", f"m_{name}", f"{name}.approx.ftz.f32", "a") for name in ("rcp", "sqrt", "ex2", "lg2", "rsqrt")),
])  # fmt: skip


def double(function, *places: int):
    """Return ``function`` of the operands ``places`` in double precision; NaN outside its domain."""

    def of(*lane: float) -> float:
        try:
            value = function(*(lane[place] for place in places or (0,)))
        except (ValueError, ZeroDivisionError):
            return math.nan
        except OverflowError:
            return math.inf
        return float(value)

    return of


# Inputs: a in (-8, 8), b in (0.1, 60). The last column is the error bound in ulp (CUDA C++ Programming Guide; 2 to 3
# for instructions of the special function unit).
APPROXIMATE = (
    ("__expf(a)", math.exp, 11), ("__logf(b)", lambda a, b: math.log(b), 40),
    ("__log2f(b)", lambda a, b: math.log2(b), 40), ("__fdividef(a, b)", lambda a, b: a / b, 2),
    ("__tanf(a * 0.1f)", lambda a: math.tan(a * np.float32(0.1)), 16),
    ("__powf(b, a)", lambda a, b: b**a, 100), ("__frsqrt_rn(b)", lambda a, b: b**-0.5, 1),
    ("rsqrtf(b)", lambda a, b: b**-0.5, 2), ("exp2f(a)", lambda a: 2.0**a, 2), ("m_tanh(a)", math.tanh, 8),
    ("m_rcp(b)", lambda a, b: 1 / b, 1), ("m_sqrt(b)", lambda a, b: b**0.5, 2), ("m_ex2(a)", lambda a: 2.0**a, 2),
    ("m_lg2(b)", lambda a, b: math.log2(b), 40), ("m_rsqrt(b)", lambda a, b: b**-0.5, 2), ("expf(a)", math.exp, 2),
    ("logf(b)", lambda a, b: math.log(b), 1), ("sinf(a)", math.sin, 2), ("cosf(a)", math.cos, 2),
    ("tanf(a)", math.tan, 4), ("tanhf(a)", math.tanh, 2), ("erff(a)", math.erf, 2), ("erfcf(a)", math.erfc, 4),
    ("powf(b, a)", lambda a, b: b**a, 4), ("log2f(b)", lambda a, b: math.log2(b), 1),
    ("log10f(b)", lambda a, b: math.log10(b), 2), ("log1pf(b)", lambda a, b: math.log1p(b), 1),
    ("expm1f(a)", math.expm1, 1), ("sinhf(a)", math.sinh, 3), ("coshf(a)", math.cosh, 2), ("atanf(a)", math.atan, 2),
    ("atan2f(a, b)", math.atan2, 3), ("asinf(a * 0.125f)", lambda a: math.asin(a / 8), 2),
    ("acosf(a * 0.125f)", lambda a: math.acos(a / 8), 2), ("cbrtf(b)", lambda a, b: b ** (1 / 3), 1),
    ("hypotf(a, b)", math.hypot, 3), ("tgammaf(b * 0.125f)", lambda a, b: math.gamma(b / 8), 5),
    ("normcdff(a)", lambda a: math.erfc(-a / math.sqrt(2)) / 2, 5), ("exp10f(a)", lambda a: 10.0**a, 2),
    ("sinf(a * 1e6f)", lambda a: math.sin(float(np.float32(a) * np.float32(1e6))), 2),
    ("cosf(b * 1e30f)", lambda a, b: math.cos(float(np.float32(b) * np.float32(1e30))), 2),
)  # fmt: skip
# The same for doubles.
DOUBLE_APPROXIMATE = (
    ("exp(a)", math.exp, 1), ("log(b)", lambda a, b: math.log(b), 1), ("sin(a)", math.sin, 2),
    ("cos(a * 1e10)", lambda a: math.cos(a * 1e10), 2), ("tanh(a)", math.tanh, 2), ("erf(a)", math.erf, 2),
    ("pow(b, a)", lambda a, b: b**a, 2), ("rsqrt(b)", lambda a, b: b**-0.5, 1),
    ("cbrt(b)", lambda a, b: b ** (1 / 3), 2), ("sin(b * 1e300)", lambda a, b: math.sin(b * 1e300), 2),
)  # fmt: skip


def approximations(name: str, kind: str, rows) -> Table:
    def operands(function) -> tuple[int, ...]:
        code = getattr(function, "__code__", None)  # functions of the math module have none
        both = function in (math.atan2, math.hypot) if code is None else code.co_argcount == 2
        return (0, 1) if both else (0,)

    return Table(
        name, (kind, kind), kind, tuple((text, double(function, *operands(function))) for text, function, _ in rows)
    )


FAST, FAST_DOUBLES = (
    approximations("fast", "float", APPROXIMATE),
    approximations("fast_doubles", "double", DOUBLE_APPROXIMATE),
)
TABLES = (SINGLES, DOUBLES, INTEGERS_OF_SINGLES, INTEGERS_OF_DOUBLES, FLOATS_OF_INTEGERS, NARROWED, FAST, FAST_DOUBLES)


def check(table: Table, target: str, *operands: np.ndarray) -> None:
    """Assert that every row is bitwise equal; all NaNs are equal."""
    found = evaluate(PREAMBLE, TABLES, table, target, *operands)
    lanes = list(zip(*[each.tolist() for each in (*operands, *[operands[0]] * (3 - len(operands)))], strict=True))
    mask = (1 << 64) - 1
    for row, (text, function) in enumerate(table.rows):
        for place, (lane, expected) in enumerate(zip(lanes, starmap(function, lanes), strict=True)):
            got = found[row, place].item()
            if isinstance(got, int):
                same = got & mask == int(expected) & mask
            else:
                same = (math.isnan(got) and math.isnan(expected)) or (
                    got == expected and math.copysign(1.0, got) == math.copysign(1.0, expected)
                )
            assert same, f"{text} at {place}: of {lane} expected {expected!r}, got {got!r}"


@pytest.mark.parametrize("target", thinned(ARCHITECTURES, every=4, first=2))
def test_single_precision(target: str) -> None:
    check(SINGLES, target, *(floats(np.float32, 256, seed) for seed in (1, 2, 3)))


@pytest.mark.parametrize("target", thinned(ARCHITECTURES, every=4, first=3))
def test_double_precision(target: str) -> None:
    check(DOUBLES, target, *(floats(np.float64, 192, seed) for seed in (4, 5, 6)))


@pytest.mark.parametrize("target", thinned(ARCHITECTURES, every=4, first=2))
def test_division_and_square_root_next_to_ties(target: str) -> None:
    """Operands with nearly equal mantissas, including subnormals: the hard cases of Newton iterations."""
    random = np.random.default_rng(7)
    mantissas = random.integers(0x7FFFF0, 0x800010, (2, 64), dtype=np.uint32)
    exponents = random.choice(np.array([0, 1, 2, 24, 25, 126, 127, 128, 252, 253, 254], np.uint32), (2, 64))
    a, b = (mantissas ^ exponents << 23).view(np.float32)
    check(SINGLES, target, a, b, a)


@pytest.mark.parametrize("target", thinned(ARCHITECTURES, every=4, first=1))
def test_float_and_integer_conversions(target: str) -> None:
    check(
        INTEGERS_OF_SINGLES,
        target,
        np.concatenate(
            [
                floats(np.float32, 192, 8),
                np.array([2.0**31, -(2.0**31), 2.0**32, 2.0**63, 2.0**64, 127.5, 128.5, 255.5] * 8, np.float32),
            ]
        ),
    )
    check(
        INTEGERS_OF_DOUBLES,
        target,
        np.concatenate(
            [
                floats(np.float64, 192, 9),
                np.array([2.0**31 - 0.5, -(2.0**31) - 0.5, 2.0**32 - 0.5, 2.0**63, 2.0**64, 0.5, 1.5, -0.5] * 8),
            ]
        ),
    )
    check(FLOATS_OF_INTEGERS, target, integers(np.int64, 256, 10))
    check(
        NARROWED,
        target,
        np.concatenate([floats(np.float64, 128, 11), floats(np.float32, 64, 12).astype(np.float64) * (1 + 2.0**-26)]),
    )


@pytest.mark.parametrize("target", thinned(ARCHITECTURES, every=4, first=2))
@pytest.mark.parametrize("table, rows, form", [(FAST, APPROXIMATE, SINGLE), (FAST_DOUBLES, DOUBLE_APPROXIMATE, DOUBLE)])
def test_error_bounds_of_math_functions(target: str, table: Table, rows, form: Format) -> None:
    random = np.random.default_rng(13)
    kind = np.float32 if form is SINGLE else np.float64
    a, b = random.uniform(-8, 8, 256).astype(kind), random.uniform(0.1, 60, 256).astype(kind)
    found = evaluate(PREAMBLE, TABLES, table, target, a, b).astype(np.float64)
    for row, (text, function) in enumerate(table.rows):
        expected = [function(float(x), float(y)) for x, y in zip(a, b, strict=True)]
        error = [abs(got - want) / form.spacing(want) for got, want in zip(found[row], expected, strict=True)]
        worst = int(np.argmax(error))
        assert error[worst] <= rows[row][2] + 0.5, (
            text,
            float(a[worst]),
            float(b[worst]),
            error[worst],
            found[row][worst],
            expected[worst],
        )
