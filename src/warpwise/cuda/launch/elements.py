"""The C types that kernels declare, and the PyTorch dtypes that fit them."""

from __future__ import annotations

import functools
import re
import struct
from dataclasses import dataclass
from typing import Literal

import torch

Kind = Literal["int", "float", "bool", "half", "bf16", "fp8", "complex"]


@dataclass(frozen=True)
class ElementType:
    """A C type whose layout is known: ``lanes`` scalars of ``kind``, each ``bytes // lanes`` wide.

    ``code`` is the ``struct`` format of the type (bfloat16 and fp8 are packed as integers of their width). ``dtypes``
    are those that a pointer to it accepts. ``low`` and ``high`` are the bounds of an integer.
    """

    name: str
    kind: Kind
    bytes: int
    code: str
    dtypes: tuple[torch.dtype, ...]
    lanes: int = 1
    align: int = 1
    low: int = 0
    high: int = 0

    @property
    def vector(self) -> bool:
        """True for a vector type, including those of one lane ("float1")."""
        return self.lanes > 1 or self.name in _ONE_LANE


def _integer(name: str, code: str, *dtypes: torch.dtype) -> ElementType:
    size = struct.calcsize(code)
    signed = code.islower()
    low, high = (-(1 << (8 * size - 1)), (1 << (8 * size - 1)) - 1) if signed else (0, (1 << (8 * size)) - 1)
    return ElementType(name, "int", size, code, dtypes, 1, size, low, high)


def _other(name: str, kind: Kind, code: str, *dtypes: torch.dtype) -> ElementType:
    size = struct.calcsize(code)
    return ElementType(name, kind, size, code, dtypes, 1, size)


_INT8 = (torch.int8, torch.uint8)
_INT16 = (torch.int16, torch.uint16)
_INT32 = (torch.int32, torch.uint32)
_INT64 = (torch.int64, torch.uint64)

_SCALARS = (
    _integer("char", "b", *_INT8),
    _integer("signed char", "b", *_INT8),
    _integer("unsigned char", "B", *_INT8[::-1]),
    _integer("short", "h", *_INT16),
    _integer("unsigned short", "H", *_INT16[::-1]),
    _integer("int", "i", *_INT32),
    _integer("unsigned int", "I", *_INT32[::-1]),
    _integer("long", "q", *_INT64),
    _integer("unsigned long", "Q", *_INT64[::-1]),
    _integer("long long", "q", *_INT64),
    _integer("unsigned long long", "Q", *_INT64[::-1]),
    _other("bool", "bool", "?", torch.bool),
    _other("float", "float", "f", torch.float32),
    _other("double", "float", "d", torch.float64),
    _other("__half", "half", "e", torch.float16),
    _other("__nv_bfloat16", "bf16", "H", torch.bfloat16),
    _other("c10::Half", "half", "e", torch.float16),
    _other("c10::BFloat16", "bf16", "H", torch.bfloat16),
    _other("__nv_fp8_e4m3", "fp8", "B", torch.float8_e4m3fn),
    _other("__nv_fp8_e5m2", "fp8", "B", torch.float8_e5m2),
)
_BY_NAME = {element.name: element for element in _SCALARS}


def _vector(name: str, base: str, lanes: int, align: int, *more: torch.dtype) -> ElementType:
    scalar = _BY_NAME[base]
    kind: Kind = scalar.kind
    return ElementType(
        name,
        kind,
        lanes * scalar.bytes,
        scalar.code * lanes,
        (*scalar.dtypes, *more),
        lanes,
        align,
        scalar.low,
        scalar.high,
    )


def _vectors() -> list[ElementType]:
    """CUDA's built-in vector types. Alignments follow the programming guide's table: a vector of three is aligned like
    its scalar, the others to their size, at most 16 bytes.
    """
    made: list[ElementType] = []
    for stem, base in (
        ("char", "signed char"),
        ("uchar", "unsigned char"),
        ("short", "short"),
        ("ushort", "unsigned short"),
        ("int", "int"),
        ("uint", "unsigned int"),
        ("long", "long"),
        ("ulong", "unsigned long"),
        ("longlong", "long long"),
        ("ulonglong", "unsigned long long"),
        ("float", "float"),
        ("double", "double"),
    ):
        size = _BY_NAME[base].bytes
        for lanes in (1, 2, 3, 4):
            align = size if lanes in (1, 3) else min(size * lanes, 16)
            complex_too = {"float2": (torch.complex64,), "double2": (torch.complex128,)}.get(f"{stem}{lanes}", ())
            made.append(_vector(f"{stem}{lanes}", base, lanes, align, *complex_too))
    made.append(_vector("__half2", "__half", 2, 4))
    made.append(_vector("__nv_bfloat162", "__nv_bfloat16", 2, 4))
    made.append(_vector("__nv_fp8x2_e4m3", "__nv_fp8_e4m3", 2, 2))
    made.append(_vector("__nv_fp8x4_e4m3", "__nv_fp8_e4m3", 4, 4))
    made.append(_vector("__nv_fp8x2_e5m2", "__nv_fp8_e5m2", 2, 2))
    made.append(_vector("__nv_fp8x4_e5m2", "__nv_fp8_e5m2", 4, 4))
    return made


_ONE_LANE = frozenset(vector.name for vector in _vectors() if vector.lanes == 1)
_BY_NAME.update({vector.name: vector for vector in _vectors()})
_COMPLEX = re.compile(r"(?:(?:cuda::)?std|thrust)(?:::\w+)*::complex<(float|double)>")


@functools.lru_cache(maxsize=512)
def element(name: str) -> ElementType | None:
    """The known type called ``name`` ("unsigned int", "float4", "std::complex<float>"), or None for a user-defined
    type.
    """
    found = _BY_NAME.get(name)
    if found is None and (match := _COMPLEX.fullmatch(name)):
        pair = _BY_NAME[f"{match[1]}2"]
        dtype = torch.complex64 if match[1] == "float" else torch.complex128
        found = ElementType(name, "complex", pair.bytes, pair.code, (dtype, *pair.dtypes), 2, pair.bytes // 2)
    return found


def known() -> tuple[ElementType, ...]:
    """Every known type, except those with template arguments."""
    return tuple(_BY_NAME.values())


_CTYPES = {
    torch.float32: "float", torch.float64: "double", torch.float16: "__half", torch.bfloat16: "__nv_bfloat16",
    torch.float8_e4m3fn: "__nv_fp8_e4m3", torch.float8_e5m2: "__nv_fp8_e5m2",
    torch.int8: "signed char", torch.uint8: "unsigned char", torch.int16: "short", torch.uint16: "unsigned short",
    torch.int32: "int", torch.uint32: "unsigned int", torch.int64: "long long", torch.uint64: "unsigned long long",
    torch.bool: "bool", torch.complex64: "float2", torch.complex128: "double2",
}  # fmt: skip


def ctype(dtype: torch.dtype) -> str:
    """The C++ type of one element of ``dtype``, for a kernel's template arguments.

    >>> ctype(torch.float16)
    '__half'

    Raises ``TypeError`` for a dtype without a CUDA C++ type.
    """
    if dtype not in _CTYPES:
        raise TypeError(
            f"ctype: no C++ type for {dtype}; there are types for {', '.join(str(known) for known in _CTYPES)}"
        )
    return _CTYPES[dtype]
