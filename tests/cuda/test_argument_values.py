"""Arguments passed by value are packed by the declared type; each kind of mismatch has its own message."""

from __future__ import annotations

import ctypes
import math
import struct
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.cuda.binding import refused, scalar

from warpwise.cuda.launch.elements import element
from warpwise.cuda.launch.views import out


@pytest.mark.parametrize(
    "declared, code",
    [("char", "b"), ("unsigned char", "B"), ("short", "h"), ("unsigned short", "H"), ("int", "i"),
     ("unsigned int", "I"), ("long", "q"), ("unsigned long", "Q"), ("long long", "q"), ("unsigned long long", "Q")],
)  # fmt: skip
def test_integers_are_packed_by_declared_width_and_range(declared: str, code: str) -> None:
    known = element(declared)
    assert known is not None
    for value in (known.low, known.high, 0, 1):
        assert scalar(declared, value) == struct.pack("=" + code, value)
    for value in (known.low - 1, known.high + 1):
        refused(declared, value, f"got {value:,}; it does not fit: {declared} holds")


@given(st.integers(-(2**31), 2**31 - 1))
def test_python_numpy_and_torch_integers_pack_the_same(value: int) -> None:
    expected = struct.pack("=i", value)
    assert scalar("int", value) == expected
    assert scalar("int", np.int64(value)) == expected
    assert scalar("int", torch.tensor(value)) == expected
    assert scalar("int", np.array(value)) == expected
    assert scalar("int", ctypes.c_int(value)) == expected


def test_true_packs_as_one() -> None:
    assert scalar("int", True) == b"\1\0\0\0"
    assert scalar("int", np.bool_(True)) == b"\1\0\0\0"
    assert scalar("bool", True) == b"\1"
    assert scalar("bool", 0) == b"\0"
    assert scalar("float", True) == struct.pack("f", 1.0)
    refused("bool", 2, "expected True or False")
    refused("bool", 1.0, "expected True or False")


@pytest.mark.parametrize(
    "value, message",
    [
        (3.0, r"got float 3.0; a float is never cut to an integer: pass int\(3.0\)"),
        (2.5, "got float 2.5; a float is never cut to an integer: pass an integer"),
        (np.float32(3), "a float is never cut"),
        (torch.tensor(3.0), "a float is never cut"),
        (math.nan, "a float is never cut"),
        ("3", "got str '3'; expected an integer"),
        (None, "got NoneType None; expected an integer"),
        (1j, "expected an integer"),
        (torch.zeros(3, dtype=torch.int32), r"got an int32 tensor of shape \(3,\) on cpu; expected one number"),
        (np.zeros(1, np.int32), "expected one number: are the arguments in the order"),
        (out(torch.zeros(1)), r"got out\(a float32 tensor .*; out\(\) and strided\(\) mark arrays"),
    ],
)
def test_non_integers_raise(value: Any, message: str) -> None:
    refused("int", value, message)


@given(st.floats(width=32))
def test_a_python_float_converts_to_the_declared_type(value: float) -> None:
    assert scalar("float", value) == struct.pack("=f", value)
    assert scalar("double", value) == struct.pack("=d", value)
    assert scalar("float", np.float64(value)) == struct.pack("=f", value)


def test_out_of_range_numbers_raise() -> None:
    assert scalar("float", 3) == struct.pack("=f", 3.0)
    assert scalar("float", math.inf) == struct.pack("=f", math.inf)
    assert scalar("__half", 65519.0) == struct.pack("=e", 65504.0)
    for declared, value in (
        ("float", 1e39),
        ("float", -1e39),
        ("__half", 65520.0),
        ("__nv_bfloat16", 3.4e38),
        ("__nv_fp8_e5m2", 1e5),
        ("__nv_fp8_e4m3", 500.0),
    ):
        refused(declared, value, f"{declared} would round it to infinity")
    refused("double", 10**400, "it does not fit a double")
    refused("float", "1.0", "expected a number")
    refused("float", 1j, "expected a number")


@given(st.floats(-60000, 60000))
def test_half_rounds_as_in_torch(value: float) -> None:
    expected = torch.tensor(value, dtype=torch.float64).to(torch.float16)
    assert scalar("__half", value) == struct.pack("=H", expected.view(torch.uint16).item())


@given(st.floats(-(2.0**127), 2.0**127, width=32))
def test_bfloat16_rounds_as_in_torch(value: float) -> None:
    expected = torch.tensor(value, dtype=torch.float32).to(torch.bfloat16)
    assert scalar("__nv_bfloat16", value) == struct.pack("=H", expected.view(torch.uint16).item())


def test_16_bit_floats_by_value() -> None:
    assert struct.unpack("=H", scalar("__nv_bfloat16", math.nan))[0] & 0x7FFF > 0x7F80
    assert scalar("__nv_fp8_e4m3", 1.5) == torch.tensor(1.5).to(torch.float8_e4m3fn).view(torch.uint8).numpy().tobytes()


def test_vectors_by_value() -> None:
    assert scalar("float4", (1, 2.0, 3, 4)) == struct.pack("=4f", 1, 2, 3, 4)
    assert scalar("int2", torch.tensor([1, -2])) == struct.pack("=2i", 1, -2)
    assert scalar("float2", 1 + 2j) == struct.pack("=2f", 1, 2)
    assert scalar("std::complex<float>", 1 + 2j) == struct.pack("=2f", 1, 2)
    assert scalar("uchar4", [1, 2, 3, 255]) == bytes([1, 2, 3, 255])
    assert scalar("float1", (2.5,)) == struct.pack("=f", 2.5)
    refused("float4", (1, 2, 3), "expected 4 numbers")
    refused("float4", 1.0, "expected 4 numbers")
    refused("int2", (1, 2.5), "a float is never cut")
    refused("uchar4", (1, 2, 3, 256), "unsigned char holds 0 to 255")


class Particle(ctypes.Structure):
    _fields_ = (("x", ctypes.c_float), ("n", ctypes.c_int))


def test_structs_by_value_require_their_exact_size() -> None:
    expected = struct.pack("=fi", 1.5, 7)
    record = np.array((1.5, 7), [("x", "f4"), ("n", "i4")])
    for value in (Particle(1.5, 7), expected, bytearray(expected), record, record[()]):
        assert scalar("Particle", value, 8) == expected
    refused(
        "Particle", Particle(1.5, 7), "got Particle of 8 bytes; Particle has 12 bytes: is the layout the kernel's", 12
    )
    refused("Particle", (1.5, 7), r"pass Particle \(8 bytes\) as a ctypes.Structure, a NumPy record or bytes", 8)
    assert scalar("Colour", ctypes.c_int(2), 4) == b"\2\0\0\0"
    refused("Colour", 2, "an enumeration as ctypes.c_int", 4)
