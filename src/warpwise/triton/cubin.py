"""Registers and stack size of a kernel, read from the ELF attributes that ptxas writes into a cubin."""

from __future__ import annotations

import struct
from typing import NamedTuple

# ELF-64, little-endian: offset of the section table; a section header.
_HEADER = struct.Struct("<40xQ10xHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
# An attribute of .nv.info: format (1 byte), kind (1 byte), then a 16-bit value or payload length.
_ATTRIBUTE = struct.Struct("<BBH")
_HAS_PAYLOAD = 4
_FRAME_SIZE, _REGISTER_COUNT = 0x11, 0x2F


class Resources(NamedTuple):
    """Per thread: registers, and bytes of the stack frame, to which ptxas spills registers."""

    registers: int
    stack: int


def resources(cubin: bytes) -> Resources:
    """Return the resources of the kernel with the most registers; raise ``ValueError`` if ``cubin`` is not a cubin."""
    if cubin[:5] != b"\x7fELF\x02":
        raise ValueError("expected a cubin (a 64-bit ELF file)")
    table, entry_size, count, names = _HEADER.unpack_from(cubin)
    sections = [_SECTION.unpack_from(cubin, table + number * entry_size) for number in range(count)]
    strings = sections[names][4]
    registers: dict[int, int] = {}
    stacks: dict[int, int] = {}
    for section in sections:
        start = strings + section[0]
        if cubin[start : cubin.index(b"\0", start)] != b".nv.info":
            continue
        at, end = section[4], section[4] + section[5]
        while at < end:
            kind, attribute, length = _ATTRIBUTE.unpack_from(cubin, at)
            at += _ATTRIBUTE.size
            if kind != _HAS_PAYLOAD:
                continue
            if attribute in (_FRAME_SIZE, _REGISTER_COUNT):
                symbol, value = struct.unpack_from("<II", cubin, at)
                (registers if attribute == _REGISTER_COUNT else stacks)[symbol] = value
            at += length
    if not registers:
        raise ValueError("the cubin has no register count attribute")
    symbol = max(registers, key=lambda key: registers[key])
    return Resources(registers[symbol], stacks.get(symbol, 0))
