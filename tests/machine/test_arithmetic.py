"""Integer instructions: compiled CUDA expressions against Python integers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from tests.machine.expression_tables import Table, check_integers, evaluate, integers
from tests.machine.raw_launch import ARCHITECTURES
from tests.sampled import thinned

WORD = 0xFFFFFFFF


def each(function):
    """Apply ``function`` to each lane's operands; return an array of Python integers."""
    return lambda v: np.array([function(*lane) for lane in zip(v.a, v.b, v.c, strict=True)], object)


def unsigned(function, bits=32):
    mask = (1 << bits) - 1
    return each(lambda a, b, c: function(a & mask, b & mask, c & mask))


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (value >> (bits - 1) << bits)


def fields(value: int, bits: int, sign: bool, word: int = 32) -> list[int]:
    parts = [value >> at & ((1 << bits) - 1) for at in range(0, word, bits)]
    return [signed(part, bits) for part in parts] if sign else parts


def dot(a: list[int], b: list[int]) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))


def joined(parts: list[int], bits: int) -> int:
    return sum((part & ((1 << bits) - 1)) << (bits * place) for place, part in enumerate(parts))


def lanewise(function, bits: int, sign: bool):
    """Apply ``function`` to each byte or half of a and b."""
    return each(
        lambda a, b, c: joined(
            [function(x, y) for x, y in zip(fields(a, bits, sign), fields(b, bits, sign), strict=True)], bits
        )
    )


def clamp(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)


def permuted(a: int, b: int, selector: int) -> int:
    pool = fields(a, 8, False) + fields(b, 8, False)
    taken = []
    for nibble in fields(selector, 4, False)[:4]:
        byte = pool[nibble & 7]
        taken.append((255 if byte & 128 else 0) if nibble & 8 else byte)
    return joined(taken, 8)


def mode_of_prmt(choose):
    """Modes of prmt: byte i of the result is byte choose(i, c & 3) of {b, a}."""
    return unsigned(
        lambda a, b, c: joined([(fields(a, 8, False) + fields(b, 8, False))[choose(i, c & 3) & 7] for i in range(4)], 8)
    )


def brev(value: int, bits: int) -> int:
    return int(f"{value & ((1 << bits) - 1):0{bits}b}"[::-1], 2)


def first_set(value: int) -> int:
    return (value & -value).bit_length()


def field_of(a: int, b: int, c: int, sign: bool) -> int:
    """bfe: c bits of a from bit b on, sign-extended past bit 31."""
    position, length = b & 255, c & 255
    if not length:
        return 0
    if not sign:
        return (a & WORD) >> position & ((1 << length) - 1)
    return signed((signed(a, 32) >> position) & ((1 << length) - 1), length)


def inserted(a: int, b: int, c: int) -> int:
    """bfi: insert the low bits of a into b."""
    position, length = c & 255, c >> 8 & 255
    mask = ((1 << length) - 1) << position & WORD
    return b & ~mask | a << position & mask


def asm(name: str, text: str, operands: str = "abc") -> str:
    inputs = ", ".join(f'"r"({each})' for each in operands)
    places = ", ".join(f"%{place + 1}" for place in range(len(operands)))
    body = text if "%" in text else f"{text} %0, {places};"
    arguments = ", ".join(f"int {each}" for each in operands)
    return f'__device__ int {name}({arguments}) {{ int d; asm("{body}" : "=r"(d) : {inputs}); return d; }}\n'


PREAMBLE = "typedef unsigned u; typedef unsigned long long ull; typedef long long ll;\n" + "".join(
    [
        asm("f4e", "prmt.b32.f4e"), asm("b4e", "prmt.b32.b4e"), asm("rc8", "prmt.b32.rc8"), asm("ecl", "prmt.b32.ecl"),
        asm("ecr", "prmt.b32.ecr"), asm("rc16", "prmt.b32.rc16"), asm("bfeu", "bfe.u32"), asm("bfes", "bfe.s32"),
        asm("bfi", "{.reg .b32 l; shr.u32 l, %3, 8; bfi.b32 %0, %1, %2, %3, l;}"), asm("bfind", "bfind.s32", "a"),
        asm("bfindu", "bfind.u32", "a"), asm("bfinda", "bfind.shiftamt.u32", "a"), asm("szu", "szext.clamp.u32", "ab"),
        asm("szs", "szext.clamp.s32", "ab"), asm("szw", "szext.wrap.s32", "ab"), asm("bmskc", "bmsk.clamp.b32", "ab"),
        asm("bmskw", "bmsk.wrap.b32", "ab"), asm("shl", "shl.b32", "ab"), asm("shrs", "shr.s32", "ab"),
        asm("shru", "shr.u32", "ab"), asm("adds", "add.sat.s32", "ab"),
        asm("carry", "{add.cc.u32 %0, %1, %2; addc.u32 %0, %0, %3;}"),
        asm("borrow", "{sub.cc.u32 %0, %1, %2; subc.u32 %0, %0, %3;}"),
        asm("madc", "{mad.lo.cc.u32 %0, %1, %2, %3; madc.hi.u32 %0, %1, %2, %0;}"),
        asm("pack8", "cvt.pack.sat.s8.s32.b32"), asm("packu8", "cvt.pack.sat.u8.s32.b32"),
        asm("pack16", "cvt.pack.sat.s16.s32", "ab"),
        asm("sat8", "cvt.sat.s8.s32", "a"), asm("satu16", "cvt.sat.u16.s32", "a"),
    ]
)  # fmt: skip

WORDS = Table("words", ("int", "int", "int"), "int", (
    ("a + b", each(lambda a, b, c: a + b)), ("a - b", each(lambda a, b, c: a - b)),
    ("a * b", each(lambda a, b, c: a * b)),
    ("a * b + c", each(lambda a, b, c: a * b + c)), ("a - b - c", each(lambda a, b, c: a - b - c)),
    ("-a + ~b", each(lambda a, b, c: -a + ~b)), ("(a << 5) + b", each(lambda a, b, c: (a << 5) + b)),
    ("((u)a >> 27) + b", each(lambda a, b, c: ((a & WORD) >> 27) + b)),
    ("a * 100003 - c", each(lambda a, b, c: a * 100003 - c)),
    ("__mulhi(a, b)", each(lambda a, b, c: a * b >> 32)), ("__umulhi(a, b)", unsigned(lambda a, b, c: a * b >> 32)),
    ("__mul24(a, b)", each(lambda a, b, c: signed(a, 24) * signed(b, 24))),
    ("__umul24(a, b)", unsigned(lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF))),
    ("(short)a * (short)b", each(lambda a, b, c: signed(a, 16) * signed(b, 16))),
    ("__sad(a, b, c)", each(lambda a, b, c: abs(a - b) + c)),
    ("__usad(a, b, c)", unsigned(lambda a, b, c: abs(a - b) + c)),
    ("abs(a)", each(lambda a, b, c: abs(a))), ("min(a, b)", each(lambda a, b, c: min(a, b))),
    ("max(a, b)", each(lambda a, b, c: max(a, b))),
    ("min((u)a, (u)b)", unsigned(lambda a, b, c: min(a, b))), ("max((u)a, (u)b)", unsigned(lambda a, b, c: max(a, b))),
    ("max(min(a, b), c)", each(lambda a, b, c: max(min(a, b), c))),
    ("max(a, max(b, c))", each(lambda a, b, c: max(a, b, c))),
    ("max(a + b, c)", each(lambda a, b, c: max(signed(a + b, 32), c))),
    ("min(a + b, 0)", each(lambda a, b, c: min(signed(a + b, 32), 0))),
    ("__popc(a)", unsigned(lambda a, b, c: a.bit_count())), ("__clz(a)", unsigned(lambda a, b, c: 32 - a.bit_length())),
    ("__ffs(a)", unsigned(lambda a, b, c: first_set(a))), ("__brev(a)", unsigned(lambda a, b, c: brev(a, 32))),
    ("__byte_perm(a, b, c)", unsigned(lambda a, b, c: permuted(a, b, c & 0x7777))),
    ("__byte_perm(a, b, 0x6420)", unsigned(lambda a, b, c: permuted(a, b, 0x6420))),
    ("__byte_perm(a, b, 0x5432)", unsigned(lambda a, b, c: permuted(a, b, 0x5432))),
    ("(int)(signed char)(a >> 8)", each(lambda a, b, c: signed(a >> 8, 8))),
    ("(int)(short)a", each(lambda a, b, c: signed(a, 16))), ("a >> 3 & 0x7f", each(lambda a, b, c: a >> 3 & 0x7F)),
    ("__dp4a(a, b, c)", each(lambda a, b, c: c + dot(fields(a, 8, True), fields(b, 8, True)))),
    ("__dp4a((u)a, (u)b, (u)c)", each(lambda a, b, c: c + dot(fields(a, 8, False), fields(b, 8, False)))),
    ("__dp2a_lo(a, b, c)", each(lambda a, b, c: c + dot(fields(a, 16, True), fields(b, 8, True)[:2]))),
    ("__dp2a_hi((u)a, (u)b, (u)c)", each(lambda a, b, c: c + dot(fields(a, 16, False), fields(b, 8, False)[2:]))),
    ("a << (b & 31)", each(lambda a, b, c: a << (b & 31))), ("a >> (b & 31)", each(lambda a, b, c: a >> (b & 31))),
    ("(u)a >> (b & 31)", each(lambda a, b, c: (a & WORD) >> (b & 31))),
    ("shl(a, b)", unsigned(lambda a, b, c: a << min(b, 32))),
    ("shru(a, b)", unsigned(lambda a, b, c: a >> min(b, 32))),
    ("shrs(a, b)", each(lambda a, b, c: a >> min(b & WORD, 32))),
    ("__funnelshift_l(a, b, c)", unsigned(lambda a, b, c: (b << 32 | a) << (c & 31) >> 32)),
    ("__funnelshift_r(a, b, c)", unsigned(lambda a, b, c: (b << 32 | a) >> (c & 31))),
    ("__funnelshift_lc(a, b, c)", unsigned(lambda a, b, c: (b << 32 | a) << min(c, 32) >> 32)),
    ("__funnelshift_rc(a, b, c)", unsigned(lambda a, b, c: (b << 32 | a) >> min(c, 32))),
    ("__hadd(a, b)", each(lambda a, b, c: a + b >> 1)), ("__rhadd(a, b)", each(lambda a, b, c: a + b + 1 >> 1)),
    ("__uhadd(a, b)", unsigned(lambda a, b, c: a + b >> 1)),
    ("a & b | ~a & c", each(lambda a, b, c: a & b | ~a & c)), ("a ^ b ^ c", each(lambda a, b, c: a ^ b ^ c)),
    ("~(a | b)", each(lambda a, b, c: ~(a | b))),
    ("a < b", each(lambda a, b, c: a < b)), ("(u)a < (u)b", unsigned(lambda a, b, c: a < b)),
    ("a < b && b < c || a == c", each(lambda a, b, c: a < b < c or a == c)),
    ("a >= b || b != c", each(lambda a, b, c: a >= b or b != c)),
    ("a == b ? b : c", each(lambda a, b, c: b if a == b else c)),
    ("(a < b) ^ (b < c)", each(lambda a, b, c: (a < b) ^ (b < c))),
    ("((a & b & c) >> 31) ^ ((a | b) < 0)", each(lambda a, b, c: (a & b & c) >> 31 ^ ((a | b) < 0))),
    ("f4e(a, b, c)", mode_of_prmt(lambda i, s: s + i)), ("b4e(a, b, c)", mode_of_prmt(lambda i, s: s - i)),
    ("rc8(a, b, c)", mode_of_prmt(lambda i, s: s)),
    ("ecl(a, b, c)", mode_of_prmt(max)), ("ecr(a, b, c)", mode_of_prmt(min)),
    ("rc16(a, b, c)", mode_of_prmt(lambda i, s: (s & 1) * 2 + (i & 1))),
    ("bfeu(a, b, c)", each(lambda a, b, c: field_of(a, b, c, False))),
    ("bfes(a, b & 15, c & 15)", each(lambda a, b, c: field_of(a, b & 15, c & 15, True))),
    ("bfi(a, b, c & 0x1f1f)", unsigned(lambda a, b, c: inserted(a, b, c & 0x1F1F))),
    ("bfind(a)", each(lambda a, b, c: (a if a >= 0 else ~a).bit_length() - 1)),
    ("bfindu(a)", unsigned(lambda a, b, c: a.bit_length() - 1)),
    ("bfinda(a)", unsigned(lambda a, b, c: 32 - a.bit_length() if a else -1)),
    ("szu(a, b)", unsigned(lambda a, b, c: a & ((1 << min(b, 32)) - 1))),
    ("szs(a, b)", unsigned(lambda a, b, c: signed(a, b) if 0 < b < 32 else a if b else 0)),
    ("szw(a, b)", unsigned(lambda a, b, c: signed(a, b & 31) if b & 31 else 0)),
    ("bmskc(a, b)", unsigned(lambda a, b, c: ((1 << min(b, 32)) - 1) << min(a, 32))),
    ("bmskw(a, b)", unsigned(lambda a, b, c: ((1 << (b & 31)) - 1) << (a & 31))),
    ("adds(a, b)", each(lambda a, b, c: clamp(a + b, -(1 << 31), (1 << 31) - 1))),
    ("carry(a, b, c)", unsigned(lambda a, b, c: a + b + c + (a + b >> 32))),
    ("borrow(a, b, c)", unsigned(lambda a, b, c: a - b - c - (a < b))),
    ("madc(a, b, c)", unsigned(lambda a, b, c: (a * b >> 32) + (a * b + c & WORD) + ((a * b & WORD) + c >> 32))),
    ("pack8(a, b, c)", each(lambda a, b, c: joined([clamp(b, -128, 127), clamp(a, -128, 127), c, c >> 8], 8))),
    ("packu8(a, b, c)", each(lambda a, b, c: joined([clamp(b, 0, 255), clamp(a, 0, 255), c, c >> 8], 8))),
    ("pack16(a, b)", each(lambda a, b, c: joined([clamp(b, -32768, 32767), clamp(a, -32768, 32767)], 16))),
    ("sat8(a)", each(lambda a, b, c: clamp(a, -128, 127))), ("satu16(a)", each(lambda a, b, c: clamp(a, 0, 65535))),
    ("__vadd4(a, b)", lanewise(lambda x, y: x + y, 8, False)),
    ("__vsub2(a, b)", lanewise(lambda x, y: x - y, 16, False)),
    ("__vabsdiffu4(a, b)", lanewise(lambda x, y: abs(x - y), 8, False)),
    ("__vsadu4(a, b)",
     each(lambda a, b, c: sum(abs(x - y) for x, y in zip(fields(a, 8, False), fields(b, 8, False), strict=True)))),
    ("__vmaxs2(a, b)", lanewise(max, 16, True)), ("__vminu4(a, b)", lanewise(min, 8, False)),
    ("__vmins2(a, b)", lanewise(min, 16, True)), ("__vmaxu2(a, b)", lanewise(max, 16, False)),
    ("__vcmpgts4(a, b)", lanewise(lambda x, y: -(x > y), 8, True)),
    ("__vaddss4(a, b)", lanewise(lambda x, y: clamp(x + y, -128, 127), 8, True)),
    ("__viaddmax_s32(a, b, c)", each(lambda a, b, c: max(signed(a + b, 32), c))),
    ("__viaddmin_u32(a, b, c)", unsigned(lambda a, b, c: min(a + b & WORD, c))),
    ("__viaddmax_s32_relu(a, b, c)", each(lambda a, b, c: max(signed(a + b, 32), c, 0))),
    ("__vimin3_u32(a, b, c)", unsigned(lambda a, b, c: min(a, b, c))),
    ("__vimax_s32_relu(a, b)", each(lambda a, b, c: max(a, b, 0))),
    ("__vimax_s16x2_relu(a, b)", lanewise(lambda x, y: max(x, y, 0), 16, True)),
    ("__viaddmax_s16x2(a, b, c)",
     each(lambda a, b, c: joined([max(signed(x + y, 16), z)
                                  for x, y, z in zip(*(fields(v, 16, True) for v in (a, b, c)), strict=True)], 16))),
    ("__vimax3_u16x2(a, b, c)",
     each(lambda a, b, c: joined([max(values)
                                  for values in zip(*(fields(v, 16, False) for v in (a, b, c)), strict=True)], 16))),
    ("(__vibmax_s32(a, b, &p), p)", each(lambda a, b, c: a >= b)),
    ("(__vibmin_u16x2(a, b, &p, &q), p * 2 + q)",
     each(lambda a, b, c: joined([x <= y
                                  for x, y in zip(fields(a, 16, False), fields(b, 16, False), strict=True)], 1))),
    ("__vibmax_s16x2(a, b, &p, &q)", lanewise(max, 16, True)),
), setup="bool p, q;")  # fmt: skip

LONGS = Table("longs", ("long long", "long long", "long long"), "long long", (
    ("a + b", each(lambda a, b, c: a + b)), ("a - b", each(lambda a, b, c: a - b)),
    ("a * b", each(lambda a, b, c: a * b)), ("a * b + c", each(lambda a, b, c: a * b + c)),
    ("a + b - c", each(lambda a, b, c: a + b - c)), ("a + b + c", each(lambda a, b, c: a + b + c)),
    ("__mul64hi(a, b)", each(lambda a, b, c: a * b >> 64)),
    ("__umul64hi(a, b)", unsigned(lambda a, b, c: a * b >> 64, 64)),
    ("a << (c & 63)", each(lambda a, b, c: a << (c & 63))), ("a >> (c & 63)", each(lambda a, b, c: a >> (c & 63))),
    ("(ull)a >> (c & 63)", unsigned(lambda a, b, c: a >> (c & 63), 64)),
    ("a << 4", each(lambda a, b, c: a << 4)), ("a >> 5", each(lambda a, b, c: a >> 5)),
    ("(ull)a >> 38", unsigned(lambda a, b, c: a >> 38, 64)), ("(a << 3) + b", each(lambda a, b, c: (a << 3) + b)),
    ("((ll)(int)c << 2) + b", each(lambda a, b, c: (signed(c, 32) << 2) + b)),
    ("(ll)(int)c * (int)a + b", each(lambda a, b, c: signed(c, 32) * signed(a, 32) + b)),
    ("(ull)(u)c * (u)a + b", each(lambda a, b, c: (c & WORD) * (a & WORD) + b)),
    ("(ll)(int)c + a", each(lambda a, b, c: signed(c, 32) + a)), ("-a", each(lambda a, b, c: -a)),
    ("~a & b", each(lambda a, b, c: ~a & b)),
    ("(a ^ b) | c", each(lambda a, b, c: a ^ b | c)), ("a < 0 ? -b : c", each(lambda a, b, c: -b if a < 0 else c)),
    ("llabs(a)", each(lambda a, b, c: abs(a))), ("min(a, b)", each(lambda a, b, c: min(a, b))),
    ("max(a, b)", each(lambda a, b, c: max(a, b))),
    ("min((ull)a, (ull)b)", unsigned(lambda a, b, c: min(a, b), 64)),
    ("max((ull)a, (ull)b)", unsigned(lambda a, b, c: max(a, b), 64)),
    ("__popcll(a)", unsigned(lambda a, b, c: a.bit_count(), 64)),
    ("__clzll(a)", unsigned(lambda a, b, c: 64 - a.bit_length(), 64)),
    ("__ffsll(a)", unsigned(lambda a, b, c: first_set(a), 64)),
    ("__brevll(a)", unsigned(lambda a, b, c: brev(a, 64), 64)),
    ("a < b", each(lambda a, b, c: a < b)), ("(ull)a < (ull)b", unsigned(lambda a, b, c: a < b, 64)),
    ("a == b", each(lambda a, b, c: a == b)), ("a != b", each(lambda a, b, c: a != b)),
    ("a >= b && b > c", each(lambda a, b, c: a >= b > c)),
    ("(ull)a <= (ull)b || b == c", unsigned(lambda a, b, c: a <= b or b == c, 64)),
    ("(ll)((__int128)a * b + c)", each(lambda a, b, c: a * b + c)),
    ("(ll)(((__int128)a * b + c) >> 64)", each(lambda a, b, c: signed(a * b + c, 128) >> 64)),
    ("(ll)((((unsigned __int128)(ull)a << 64 | (ull)b) + (ull)c) >> 33)",
     unsigned(lambda a, b, c: ((a << 64 | b) + c & (1 << 128) - 1) >> 33, 64)),
    ("(ll)((((unsigned __int128)(ull)a << 64 | (ull)b) - (ull)c * 3) >> 64)",
     unsigned(lambda a, b, c: (a << 64 | b) - (c * 3 & (1 << 64) - 1) >> 64, 64)),
))  # fmt: skip


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    return a - b * quotient(a, b)


QUOTIENTS = Table("quotients", ("int", "int", "int"), "int", (
    ("a / b", each(lambda a, b, c: quotient(a, b))), ("a % b", each(lambda a, b, c: remainder(a, b))),
    ("(u)a / (u)b", unsigned(lambda a, b, c: a // b)), ("(u)a % (u)b", unsigned(lambda a, b, c: a % b)),
    ("a / 7", each(lambda a, b, c: quotient(a, 7))), ("(u)a / 7", unsigned(lambda a, b, c: a // 7)),
    ("a % 10", each(lambda a, b, c: remainder(a, 10))), ("a / 16", each(lambda a, b, c: quotient(a, 16))),
    ("(u)a % 1000003u", unsigned(lambda a, b, c: a % 1000003)),
    ("(short)a / (short)(b | 1)", each(lambda a, b, c: quotient(signed(a, 16), signed(b | 1, 16)))),
    ("(unsigned char)a / (unsigned char)(b | 1)", each(lambda a, b, c: (a & 255) // (b & 255 | 1))),
))  # fmt: skip
LONG_QUOTIENTS = Table(
    "long_quotients",
    ("long long", "long long", "long long"),
    "long long",
    (
        ("a / b", each(lambda a, b, c: quotient(a, b))),
        ("a % b", each(lambda a, b, c: remainder(a, b))),
        ("(ull)a / (ull)b", unsigned(lambda a, b, c: a // b, 64)),
        ("(ull)a % (ull)b", unsigned(lambda a, b, c: a % b, 64)),
        ("a / 7", each(lambda a, b, c: quotient(a, 7))),
        ("(ull)a % 10", unsigned(lambda a, b, c: a % 10, 64)),
    ),
)
TABLES = (WORDS, LONGS, QUOTIENTS, LONG_QUOTIENTS)


def run(table: Table, target: str, *operands: np.ndarray) -> None:
    values = SimpleNamespace(**{name: [int(x) for x in given] for name, given in zip("abc", operands, strict=True)})
    check_integers(table, evaluate(PREAMBLE, TABLES, table, target, *operands), values)


@pytest.mark.parametrize("target", thinned(ARCHITECTURES, every=4, first=1))
def test_32_bit_integers(target: str) -> None:
    run(WORDS, target, *(integers(np.int32, 256, seed) for seed in (1, 2, 3)))


@pytest.mark.parametrize("target", thinned(ARCHITECTURES, every=4, first=1))
def test_32_bit_integers_with_small_shift_amounts(target: str) -> None:
    """Shift amounts, field positions and selectors in their valid ranges."""
    a, amounts = integers(np.int32, 128, 4), np.arange(128, dtype=np.int32)
    run(WORDS, target, a, amounts % 67, integers(np.int32, 128, 5) & 0x3F)


@pytest.mark.parametrize("target", thinned(ARCHITECTURES, every=4, first=1))
def test_64_bit_integers(target: str) -> None:
    run(LONGS, target, *(integers(np.int64, 512, seed) for seed in (6, 7, 8)))


@pytest.mark.parametrize("target", thinned(ARCHITECTURES, every=4, first=0))
def test_32_bit_division(target: str) -> None:
    """Division by variables and by constants, of numbers next to multiples of the divisor."""
    a, b = integers(np.int32, 8192, 9), integers(np.int32, 8192, 10)
    b[(b == 0) | ((b == -1) & (a == a.min()))] = 3
    a[::3] = a[::3] // b[::3] * b[::3] + np.resize(np.array([-1, 0, 1], np.int32), len(a[::3]))  # next to a multiple
    b[(b == -1) & (a == a.min())] = 3
    run(QUOTIENTS, target, a, b, b)


@pytest.mark.parametrize("target", thinned(ARCHITECTURES, every=4, first=1))
def test_64_bit_division(target: str) -> None:
    a, b = integers(np.int64, 4096, 11), integers(np.int64, 4096, 12)
    b[(b == 0) | ((b == -1) & (a == a.min()))] = 3
    run(LONG_QUOTIENTS, target, a, b, b)
