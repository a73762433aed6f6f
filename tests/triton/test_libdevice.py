"""Functions of ``tl.extra.libdevice`` on a CPU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import triton.language as tl
from triton.language.extra import libdevice

from warpwise import triton as wt
from warpwise.triton.libdevice import call

FLOAT, INT, LONG = np.float32, np.int32, np.int64
SMALL = 2.0**-30


@wt.jit
def rounded(x_ptr, whole_ptr, rest_ptr, zeros_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(whole_ptr + at, libdevice.round(x))
    tl.store(rest_ptr + at, libdevice.fmod(x, 2.0))
    tl.store(zeros_ptr + at, libdevice.clz(at))


def test_functions_in_a_kernel() -> None:
    x = torch.tensor([0.49999997, 2.5, -2.5, 8388609.0])
    whole, rest, zeros = torch.empty(4), torch.empty(4), torch.empty(4, dtype=torch.int32)
    assert rounded[1].check(x, wt.out(whole), wt.out(rest), wt.out(zeros), 4) == []
    assert whole.tolist() == [0, 3, -3, 8388609]
    assert rest.tolist() == [x[0].item(), 0.5, -0.5, 1]
    assert zeros.tolist() == [32, 31, 30, 30]


@pytest.mark.parametrize(
    "symbol, dtype, arguments, expected",
    [
        ("fadd_rn", FLOAT, (1, SMALL), 1),
        ("fadd_ru", FLOAT, (1, SMALL), 1 + 2.0**-23),
        ("fadd_rd", FLOAT, (1, SMALL), 1),
        ("fadd_rz", FLOAT, (-1, -SMALL), -1),
        ("fadd_rd", FLOAT, (1, -1), -0.0),
        ("dsub_rd", float, (1, 2.0**-80), 1 - 2.0**-53),
        ("fmul_ru", FLOAT, (3.0e38, 10), math.inf),
        ("fmul_rz", FLOAT, (3.0e38, 10), float(np.finfo(FLOAT).max)),
        ("fdiv_rd", FLOAT, (1, 0), math.inf),
        ("fsqrt_ru", FLOAT, (2,), float(np.nextafter(FLOAT(math.sqrt(2)), FLOAT(2)))),
        ("fmaf_rn", FLOAT, (1 + 2.0**-12, 1 - 2.0**-12, -1), -(2.0**-24)),
        ("fmaf", FLOAT, (1 + 2.0**-23, 1 + 2.0**-23, 2.0**60), 2.0**60),
        ("fmaf", FLOAT, (2.0**24, 1, 1 + 2.0**-23), 2.0**24 + 2),
        ("fma", float, (1 + 2.0**-30, 1 - 2.0**-30, -1), -(2.0**-60)),
        ("float2uint_rn", FLOAT, (3e9,), 3_000_000_000 - 2**32),
        ("double2int_ru", float, (-2.5,), -2),
        ("ll2float_rz", LONG, (2**24 + 1,), 2**24),
        ("popc", INT, (-1,), 32),
        ("ffsll", LONG, (2**40,), 41),
        ("brev", INT, (1,), -(2**31)),
        ("mulhi", INT, (-(2**31), 4), -2),
        ("mul24", INT, (0x1FFFFFF, 3), -3),
        ("hadd", INT, (2**31 - 1, 1), 2**30),
        ("float_as_int", FLOAT, (1,), 0x3F800000),
        ("ilogb", float, (0,), -(2**31)),
        ("sinpif", FLOAT, (2.0**20 + 0.5,), 1),
        ("tgamma", float, (5,), 24),
    ],
)
def test_results(symbol: str, dtype: Any, arguments: tuple[float, ...], expected: float) -> None:
    with np.errstate(all="ignore"):  # as in an interpreted kernel
        result = call(f"__nv_{symbol}", [np.array([value], dtype=dtype) for value in arguments]).item()
    assert result == expected
    assert math.copysign(1, result) == math.copysign(1, expected)


def test_byte_perm() -> None:
    x, y = np.array([0x33221180], dtype=INT), np.array([0x77665544], dtype=INT)
    assert hex(call("__nv_byte_perm", [x, y, np.array([0x2754], dtype=INT)]).item()) == hex(0x22775544)


def test_byte_perm_ignores_bit_3_of_each_four_bits_of_the_selector() -> None:
    """libdevice masks the selector with 0x7777 before ``prmt``."""
    x, y = np.array([0x33221180], dtype=INT), np.array([0x77665544], dtype=INT)
    assert hex(call("__nv_byte_perm", [x, y, np.array([0x9FCB], dtype=INT)]).item()) == hex(0x11774433)
