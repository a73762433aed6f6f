"""half, bfloat16 and fp8: every operation against its correctly rounded value."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from tests.machine import rounding
from tests.machine.expression_tables import Table, evaluate, floats
from tests.machine.raw_launch import ARCHITECTURES
from tests.machine.rounding import BFLOAT16, DOWN, HALF, NEAREST, SINGLE, UP, ZERO, Format, maximum, minimum
from tests.sampled import thinned

PREAMBLE = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <cuda_fp8.h>\n"
E4M3, E5M2 = Format(4, -6, 8), Format(3, -14, 15)


def decoded(bits: np.ndarray, form: Format) -> np.ndarray:
    """Decode 16-bit patterns to doubles."""
    if form is HALF:
        return bits.view(np.float16).astype(np.float64)
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def narrow(value: float, form: Format, mode: str = NEAREST) -> float:
    return rounding.add(value, math.copysign(0.0, value), form, mode)


def saturated(value: float) -> float:
    return 0.0 if math.isnan(value) or value <= 0 else min(value, 1.0)


def relu(value: float) -> float:
    return value if math.isnan(value) or value > 0 else 0.0


def either(a: float, b: float, choose: Callable[[float, float], float]) -> float:
    return math.nan if math.isnan(a) or math.isnan(b) else choose(a, b)


def whole(to: Callable[[Fraction], int]) -> Callable[..., float]:
    return lambda a, b, c: math.copysign(float(to(Fraction(a))), a) if math.isfinite(a) else a


def scalars(kind: str, form: Format) -> tuple:
    """Return rows for scalar operations of ``kind`` ("half" or "bfloat16")."""
    integer, single = f"__int2{kind}", f"__{kind}2float"
    multiplied = lambda b: rounding.multiply(b, 3.0, SINGLE)
    return (
        ("__hadd_rn(a, b)", lambda a, b, c: rounding.add(a, b, form)),
        ("__hsub_rn(a, b)", lambda a, b, c: rounding.add(a, -b, form)),
        ("__hmul_rn(a, b)", lambda a, b, c: rounding.multiply(a, b, form)),
        ("__hfma(a, b, c)", lambda a, b, c: rounding.fma(a, b, c, form)),
        ("__hfma(__hneg(a), b, __habs(c))", lambda a, b, c: rounding.fma(-a, b, abs(c), form)),
        ("__hadd_sat(a, b)", lambda a, b, c: saturated(rounding.add(a, b, form))),
        ("__hfma_sat(a, b, c)", lambda a, b, c: saturated(rounding.fma(a, b, c, form))),
        ("__hfma_relu(a, b, c)", lambda a, b, c: relu(rounding.fma(a, b, c, form))),
        ("__hmin(a, b)", lambda a, b, c: minimum(a, b)),
        ("__hmax(a, b)", lambda a, b, c: maximum(a, b)),
        ("__hmin_nan(a, b)", lambda a, b, c: either(a, b, minimum)),
        ("__hmax_nan(a, b)", lambda a, b, c: either(a, b, maximum)),
        ("__hlt(a, b) ? a : c", lambda a, b, c: a if a < b else c),
        ("__hgeu(a, b) ? a : c", lambda a, b, c: c if a < b else a),
        ("__hne(a, b) && __hle(b, c) ? a : c", lambda a, b, c: a if a < b <= c or a > b and b <= c else c),
        ("__hisnan(a) ? b : c", lambda a, b, c: b if math.isnan(a) else c),
        ("hfloor(a)", whole(math.floor)),
        ("hceil(a)", whole(math.ceil)),
        ("htrunc(a)", whole(math.trunc)),
        ("hrint(a)", whole(round)),
        *(
            (
                f"__float2{kind}_{suffix}({single}(b) * 3.0f)",
                lambda a, b, c, mode=mode: narrow(multiplied(b), form, mode),
            )
            for suffix, mode in {"rn": NEAREST, "rz": ZERO, "ru": UP, "rd": DOWN}.items()
        ),
        (f"__double2{kind}(0.1 * (double){single}(a))", lambda a, b, c: narrow(0.1 * a, form)),
        (
            f"{integer}_rn(__{kind}2int_rz(a))",
            lambda a, b, c: narrow(float(rounding.integer(a, 32, True, math.trunc, 0)), form),
        ),
        (
            f"__ll2{kind}_rn(__{kind}2ll_rn(b))",
            lambda a, b, c: narrow(float(rounding.integer(b, 64, True, round, -(1 << 63))), form),
        ),
        (
            f"__ushort2{kind}_rn(__{kind}2ushort_rn(c))",
            lambda a, b, c: narrow(float(rounding.integer(c, 16, False, round, 0)), form),
        ),
    )


HALVES = Table("halves", ("__half",) * 3, "__half", scalars("half", HALF))
BFLOATS = Table("bfloats", ("__nv_bfloat16",) * 3, "__nv_bfloat16", scalars("bfloat16", BFLOAT16))


def lanes(function: Callable[..., float]) -> Callable[..., tuple[float, float]]:
    """Apply ``function`` to the lower and to the upper halves."""
    return lambda a, b, c: (function(a[0], b[0], c[0]), function(a[1], b[1], c[1]))


def pairs(kind: str, form: Format) -> tuple:
    low, high, lows, highs = f"__low2{kind}2", f"__high2{kind}2", f"__lows2{kind}2", f"__highs2{kind}2"
    fma = lambda a, b, c: rounding.fma(a, b, c, form)
    truth = lambda holds: 1.0 if holds else 0.0
    return (
        ("__hadd2_rn(a, b)", lanes(lambda a, b, c: rounding.add(a, b, form))),
        ("__hmul2_rn(a, b)", lanes(lambda a, b, c: rounding.multiply(a, b, form))),
        ("__hfma2(a, b, c)", lanes(fma)),
        ("__hfma2_relu(a, b, c)", lanes(lambda a, b, c: relu(fma(a, b, c)))),
        ("__hfma2(__hneg2(a), __habs2(b), c)", lanes(lambda a, b, c: fma(-a, abs(b), c))),
        (
            f"__hfma2(a, __floats2{kind}2_rn(1.5f, -2.25f), b)",
            lambda a, b, c: (fma(a[0], 1.5, b[0]), fma(a[1], -2.25, b[1])),
        ),
        (f"__hfma2({low}(a), b, {high}(c))", lambda a, b, c: (fma(a[0], b[0], c[1]), fma(a[0], b[1], c[1]))),
        (f"__hmul2_rn({high}(a), {low}(b))", lambda a, b, c: (rounding.multiply(a[1], b[0], form),) * 2),
        (f"{lows}(a, b)", lambda a, b, c: (a[0], b[0])),
        (f"{highs}(a, b)", lambda a, b, c: (a[1], b[1])),
        ("__lowhigh2highlow(a)", lambda a, b, c: (a[1], a[0])),
        (
            "__hcmadd(a, b, c)",
            lambda a, b, c: (fma(-a[1], b[1], fma(a[0], b[0], c[0])), fma(a[1], b[0], fma(a[0], b[1], c[1]))),
        ),
        ("__hmin2(a, b)", lanes(lambda a, b, c: minimum(a, b))),
        ("__hmax2_nan(a, b)", lanes(lambda a, b, c: either(a, b, maximum))),
        ("__hlt2(a, b)", lanes(lambda a, b, c: truth(a < b))),
        ("__hgeu2(a, b)", lanes(lambda a, b, c: truth(not a < b))),
        ("__hisnan2(a)", lanes(lambda a, b, c: truth(math.isnan(a)))),
        ("__hbeq2(a, b) ? a : c", lambda a, b, c: a if a == b else c),
        ("__hblt2(a, b) ? a : c", lambda a, b, c: a if a[0] < b[0] and a[1] < b[1] else c),
        (
            f"__floats2{kind}2_rn({'__low2float'}(a) * 3, __high2float(b) * 3)",
            lambda a, b, c: (
                narrow(rounding.multiply(a[0], 3.0, SINGLE), form),
                narrow(rounding.multiply(b[1], 3.0, SINGLE), form),
            ),
        ),
        ("h2floor(a)", lanes(whole(math.floor))),
    )


HALF_PAIRS = Table("half_pairs", ("__half2",) * 3, "__half2", pairs("half", HALF))
BFLOAT_PAIRS = Table("bfloat_pairs", ("__nv_bfloat162",) * 3, "__nv_bfloat162", pairs("bfloat16", BFLOAT16))
# The last column is the error bound in ulp of the half.
FUNCTIONS = (
    ("hsqrt(a)", lambda x: math.sqrt(x), 0), ("hrcp(a)", lambda x: 1 / x, 0), ("hrsqrt(a)", lambda x: x**-0.5, 0),
    ("hexp(a)", math.exp, 1), ("hlog(a)", math.log, 1), ("hexp2(a)", lambda x: 2.0**x, 1), ("hlog2(a)", math.log2, 1),
    ("hsin(a)", math.sin, 1), ("hcos(a)", math.cos, 1), ("htanh(a)", math.tanh, 1), ("htanh_approx(a)", math.tanh, 1),
    ("__hdiv(b, a)", None, 1),
)  # fmt: skip
HALF_FUNCTIONS = Table(
    "half_functions",
    ("__half", "__half"),
    "__half",
    tuple((text, function or divmod) for text, function, _ in FUNCTIONS),
)
FP8 = Table(
    "fp8",
    ("float", "float", "unsigned"),
    "unsigned",
    (
        ("__nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, __NV_E4M3)", None),
        ("__nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, __NV_E5M2)", None),
        (
            (
                "__nv_cvt_float_to_fp8(a, __NV_SATFINITE, __NV_E4M3) | "
                "__nv_cvt_float_to_fp8(b, __NV_SATFINITE, __NV_E4M3) << 8"
            ),
            None,
        ),
        ("packed(__nv_cvt_fp8x2_to_halfraw2(c, __NV_E4M3))", None),
        ("packed(__nv_cvt_fp8x2_to_halfraw2(c, __NV_E5M2))", None),
        (
            (
                "__nv_cvt_halfraw2_to_fp8x2(__half2_raw{(unsigned short)c, (unsigned short)(c >> 16)}, "
                "__NV_SATFINITE, __NV_E4M3)"
            ),
            None,
        ),
        ("four(a, b, b, a)", None),
    ),
)
FP8_PREAMBLE = (
    "__device__ unsigned packed(__half2_raw h) { return h.x | (unsigned)h.y << 16; }\n"
    "__device__ unsigned four(float a, float b, float c, float d) {\n"
    "  __nv_fp8x4_e4m3 f(make_float4(a, b, c, d)); return f.__x;\n}\n"
)
OF_HALF, OF_BFLOAT = (HALVES, HALF_PAIRS, HALF_FUNCTIONS, FP8), (BFLOATS, BFLOAT_PAIRS)
SM80_AND_LATER = [name for name in ARCHITECTURES if name != "sm_75"]


def tables_of(target: str) -> tuple[Table, ...]:
    return OF_HALF if target == "sm_75" else (*OF_HALF, *OF_BFLOAT)


def run(table: Table, target: str, *operands: np.ndarray) -> np.ndarray:
    return evaluate(PREAMBLE + FP8_PREAMBLE, tables_of(target), table, target, *operands)


def patterns(form: Format, count: int, seed: int) -> np.ndarray:
    if form is HALF:
        return floats(np.float16, count, seed).view(np.uint16)
    usual = floats(np.float32, count, seed)
    return np.where(np.isnan(usual), np.uint32(0x7FC00000), usual.view(np.uint32)).__rshift__(16).astype(np.uint16)


def equal(got: float, expected: float) -> bool:
    return (math.isnan(got) and math.isnan(expected)) or (
        got == expected and math.copysign(1.0, got) == math.copysign(1.0, expected)
    )


def check(table: Table, target: str, form: Format, count: int) -> None:
    operands = [patterns(form, count, seed) for seed in (1, 2, 3)]
    paired = table.output.endswith("2")
    found = run(table, target, *([each.view(np.uint32) for each in operands] if paired else operands))
    values = decoded(found.view(np.uint16), form)
    inputs = [decoded(each, form).tolist() for each in operands]
    for row, (text, function) in enumerate(table.rows):
        got = values[row].tolist()
        if paired:
            places = range(0, count, 2)
            expected = [
                half for place in places for half in function(*((each[place], each[place + 1]) for each in inputs))
            ]
        else:
            expected = [function(*lane) for lane in zip(*inputs, strict=True)]
        wrong = [place for place in range(count) if not equal(got[place], expected[place])]
        assert not wrong, (
            f"{text}: {len(wrong)} wrong; of {[each[wrong[0] // 2 * 2 : wrong[0] + 2] for each in inputs]} "
            f"expected {expected[wrong[0]]!r}, got {got[wrong[0]]!r} at {wrong[0]}"
        )


@pytest.mark.parametrize("target", thinned(ARCHITECTURES, every=4, first=2))
def test_half_arithmetic(target: str) -> None:
    check(HALVES, target, HALF, 512)
    check(HALF_PAIRS, target, HALF, 512)


@pytest.mark.parametrize("target", thinned(SM80_AND_LATER, every=3, first=1))
def test_bfloat16_arithmetic(target: str) -> None:
    check(BFLOATS, target, BFLOAT16, 128)
    check(BFLOAT_PAIRS, target, BFLOAT16, 128)


@pytest.mark.parametrize("target", thinned(ARCHITECTURES, every=4, first=0))
def test_half_math_functions(target: str) -> None:
    random = np.random.default_rng(4)
    a, b = random.uniform(0.05, 6, 512).astype(np.float16), random.uniform(-8, 8, 512).astype(np.float16)
    found = decoded(run(HALF_FUNCTIONS, target, a.view(np.uint16), b.view(np.uint16)), HALF)
    for row, (text, function, allowed) in enumerate(FUNCTIONS):
        for got, x, y in zip(found[row], a.astype(np.float64), b.astype(np.float64), strict=True):
            expected = function(x) if function else y / x
            assert abs(got - expected) <= (allowed + 0.5001) * HALF.spacing(expected), (text, x, y, got, expected)


def encoded(value: float, form: Format) -> int:
    """Encode a number as fp8, saturating; NaN is 0x7f."""
    if math.isnan(value):
        return 0x7F
    largest = 448.0 if form is E4M3 else float(form.maximum)
    made = math.copysign(min(abs(narrow(value, form)), largest), value)
    magnitude, mantissa = abs(made), form.precision - 1
    sign = 0x80 if math.copysign(1.0, made) < 0 else 0
    exponent = max(math.frexp(magnitude)[1] - 1, form.smallest) if magnitude else form.smallest
    fraction = int(magnitude / 2.0 ** (exponent - mantissa))
    return sign | ((exponent - form.smallest) << mantissa) + fraction


def number(byte: int, form: Format) -> float:
    """Decode an fp8 byte."""
    mantissa = form.precision - 1
    exponent, fraction = (byte & 0x7F) >> mantissa, byte & (1 << mantissa) - 1
    if byte & 0x7F == 0x7F or (form is E5M2 and exponent == 31 and fraction):
        return math.nan
    if form is E5M2 and exponent == 31:
        return math.copysign(math.inf, -1.0 if byte & 0x80 else 1.0)
    value = (fraction + (1 << mantissa if exponent else 0)) * 2.0 ** (max(exponent, 1) - 1 + form.smallest - mantissa)
    return -value if byte & 0x80 else value


@pytest.mark.parametrize("target", thinned(ARCHITECTURES, every=4, first=1))
def test_fp8_conversions(target: str) -> None:
    ties = np.array(
        [
            x * 2.0**e
            for e in (-18, -17, -10, -9, 0, 8, 15)
            for x in (1.0, 1.0625, 1.125, 1.1875, 1.25, 1.875, 1.9375, 1.96875)
        ],
        np.float32,
    )
    a = np.concatenate([floats(np.float32, 456, 5), ties])
    b = np.concatenate([-ties, floats(np.float32, 456, 6)])
    c = np.arange(512, dtype=np.uint32) * np.uint32(0x01010101) ^ np.random.default_rng(7).integers(
        0, 1 << 32, 512, dtype=np.uint32
    )
    c[:256] = (
        np.arange(256) | np.arange(256)[::-1] << 8 | floats(np.float16, 256, 8).view(np.uint16).astype(np.uint32) << 16
    )
    found = run(FP8, target, a, b, c)
    for place, (x, y, bits) in enumerate(zip(a.tolist(), b.tolist(), c.tolist(), strict=True)):
        x, y = narrow(x, SINGLE), narrow(y, SINGLE)
        four, five = encoded(x, E4M3) | encoded(y, E4M3) << 8, encoded(x, E5M2) | encoded(y, E5M2) << 8
        assert [int(each) for each in found[:3, place]] == [four, five, four], (x, y)
        for row, form in ((3, E4M3), (4, E5M2)):
            halves = found[row, place : place + 1].view(np.float16).astype(np.float64).tolist()
            assert all(equal(got, number(bits >> at & 255, form)) for got, at in zip(halves, (0, 8), strict=True)), (
                row,
                hex(bits),
                halves,
            )
        low, high = np.array([bits], np.uint32).view(np.float16).astype(np.float64).tolist()
        assert int(found[5, place]) == encoded(low, E4M3) | encoded(high, E4M3) << 8, hex(bits)
        assert int(found[6, place]) == (four | encoded(y, E4M3) << 16 | encoded(x, E4M3) << 24), (x, y)
