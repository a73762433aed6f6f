"""By-value arguments: Python numbers, NumPy scalars, 0-dim tensors and structures, converted to a declared C type."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from warpwise.cuda.launch.elements import ElementType, element
from warpwise.cuda.launch.views import Out, Slot, Strided, described

Convert = Callable[[Any], Any]
Pack = Callable[[Any], bytes]


def converter(name: str, size: int, slot: Slot) -> tuple[Convert, str, Pack]:
    """Conversion to the C type ``name`` of ``size`` bytes: a function that checks an argument and returns the value for
    ``struct.pack``, the format, and a function that packs."""
    known = element(name)
    if known is None:
        return _record(name, size, slot), f"{size}s", bytes
    if known.vector:
        return _vector(known, slot), f"{known.bytes}s", bytes
    return _scalar(known, slot), known.code, struct.Struct("=" + known.code).pack


def _plain(value: Any, slot: Slot) -> Any:
    """The Python number in a NumPy scalar or a tensor of one element."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, torch.Tensor | np.ndarray):
        if value.ndim != 0:
            raise slot.error(described(value), "expected one number: are the arguments in the order of the parameters?")
        return value.item()
    if isinstance(value, Out | Strided):
        raise slot.error(described(value), "out() and strided() mark arrays; this parameter is passed by value")
    if isinstance(value, ctypes._SimpleCData):
        return value.value
    if not isinstance(value, int | float | complex) and hasattr(value, "__index__"):
        return value.__index__()
    return value


def _scalar(known: ElementType, slot: Slot) -> Convert:
    if known.kind == "int":
        return _integer(known, slot)
    if known.kind == "bool":
        return _bool(slot)
    if known.kind == "bf16":
        return _bfloat16(known, slot)
    if known.kind == "fp8":
        return _fp8(known, slot)
    return _float(known, slot)


def _integer(known: ElementType, slot: Slot) -> Convert:
    low, high = known.low, known.high

    def convert(value: Any) -> int:
        if type(value) is not int:
            value = _plain(value, slot)
            if isinstance(value, float):
                advice = f"pass int({value!r})" if value.is_integer() else "pass an integer"
                raise slot.error(f"float {value!r}", f"a float is never cut to an integer: {advice}")
            if not isinstance(value, int):
                raise slot.error(described(value), "expected an integer")
            value = int(value)
        if not low <= value <= high:
            raise slot.error(f"{value:,}", f"it does not fit: {known.name} holds {low:,} to {high:,}")
        return value

    return convert


def _bool(slot: Slot) -> Convert:
    def convert(value: Any) -> bool:
        plain = _plain(value, slot)
        if plain is True or plain is False or (type(plain) is int and plain in (0, 1)):
            return bool(plain)
        raise slot.error(described(value), "expected True or False")

    return convert


def _number(value: Any, slot: Slot) -> float:
    plain = value if type(value) is float else _plain(value, slot)
    if not isinstance(plain, int | float):
        raise slot.error(described(value), "expected a number")
    try:
        return float(plain)
    except OverflowError as error:
        raise slot.error(described(value), "it does not fit a double") from error


# The smallest magnitude that rounds to infinity, by type: the largest finite value plus half an ulp.
_OVERFLOW = {
    "float": (2 - 2**-23) * 2.0**127 + 2.0**103, "__half": 65520.0, "__nv_bfloat16": (2 - 2**-7) * 2.0**127 + 2.0**119,
    "__nv_fp8_e4m3": 464.0, "__nv_fp8_e5m2": 61440.0, "double": math.inf,
}  # fmt: skip
_OVERFLOW |= {"c10::Half": _OVERFLOW["__half"], "c10::BFloat16": _OVERFLOW["__nv_bfloat16"]}


def _finite(value: Any, known: ElementType, slot: Slot) -> float:
    number = value if type(value) is float else _number(value, slot)
    if abs(number) >= _OVERFLOW[known.name] and not math.isinf(number):
        raise slot.error(described(value), f"it does not fit: {known.name} would round it to infinity")
    return number


def _float(known: ElementType, slot: Slot) -> Convert:
    limit = _OVERFLOW[known.name]

    def convert(value: Any) -> float:
        if type(value) is float and -limit < value < limit:
            return value
        return _finite(value, known, slot)

    return convert


def bfloat16_bits(value: float) -> int:
    """The 16 bits of ``value`` rounded to the nearest bfloat16, ties to even; NaN stays NaN."""
    if math.isnan(value):
        return 0x7FC0
    return int(torch.tensor(value, dtype=torch.float64).to(torch.bfloat16).view(torch.uint16).item())


def _bfloat16(known: ElementType, slot: Slot) -> Convert:
    return lambda value: bfloat16_bits(_finite(value, known, slot))


def _fp8(known: ElementType, slot: Slot) -> Convert:
    dtype = known.dtypes[0]

    def convert(value: Any) -> int:
        number = _finite(value, known, slot)
        return int(torch.tensor(number, dtype=torch.float32).to(dtype).view(torch.uint8).item())

    return convert


def _vector(known: ElementType, slot: Slot) -> Convert:
    """Vector types such as ``float4`` by value: a sequence of as many numbers, or a complex number for two lanes."""
    scalar = element(_scalar_of(known))
    if scalar is None:
        raise slot.error("any value", f"{known.name} cannot be passed by value from Python")
    convert_lane = _scalar(scalar, slot)
    pack = struct.Struct("=" + known.code).pack

    def convert(value: Any) -> bytes:
        raw = _raw(value)
        if raw is not None:
            return _sized(raw, known.bytes, known.name, value, slot)
        if isinstance(value, torch.Tensor | np.ndarray | np.generic):
            value = value.tolist()
        if isinstance(value, complex) and known.lanes == 2:
            value = (value.real, value.imag)
        if not isinstance(value, list | tuple) or len(value) != known.lanes:
            raise slot.error(described(value), f"expected {known.lanes} numbers, such as a tuple")
        return pack(*(convert_lane(lane) for lane in value))

    return convert


def _scalar_of(known: ElementType) -> str:
    names = {"b": "signed char", "B": "unsigned char", "h": "short", "H": "unsigned short", "i": "int",
             "I": "unsigned int", "q": "long long", "Q": "unsigned long long", "f": "float", "d": "double",
             "e": "__half"}  # fmt: skip
    special = {"bf16": "__nv_bfloat16", "fp8": "__nv_fp8_e5m2" if "e5m2" in known.name else "__nv_fp8_e4m3"}
    return special.get(known.kind) or names[known.code[0]]


def _raw(value: Any) -> bytes | None:
    """The bytes of an object with a memory layout (bytes, ctypes, NumPy records), else None."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, ctypes.Structure | ctypes.Union | ctypes.Array):
        return bytes(value)
    if isinstance(value, np.void) or isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.names:
        return value.tobytes()
    return None


def _sized(raw: bytes, size: int, name: str, value: Any, slot: Slot) -> bytes:
    if len(raw) != size:
        raise slot.error(
            f"{type(value).__name__} of {len(raw)} bytes", f"{name} has {size} bytes: is the layout the kernel's?"
        )
    return raw


def _record(name: str, size: int, slot: Slot) -> Convert:
    """A user-defined type: a ``ctypes`` structure or scalar, a NumPy record or bytes, of exactly its size."""

    def convert(value: Any) -> bytes:
        raw = bytes(value) if isinstance(value, ctypes._SimpleCData) else _raw(value)
        if raw is None:
            raise slot.error(
                described(value),
                f"pass {name} ({size} bytes) as a ctypes.Structure, a NumPy record or bytes; an enumeration as "
                "ctypes.c_int",
            )
        return _sized(raw, size, name, value, slot)

    return convert
