"""Variables of a shared library that the dynamic linker does not list, found by its symbol table."""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path
from typing import NamedTuple

from warpwise.cuda.signature import demangle

# ELF-64 (System V ABI): where the section table is, a section's header, and a symbol. Little-endian.
_HEADER = struct.Struct("<40xQ10xHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMTAB, _OBJECT = 2, 1


class Variable(NamedTuple):
    """A variable: its address relative to the library's load address, and its bytes."""

    offset: int
    nbytes: int


def symbols(path: Path) -> dict[str, tuple[int, int, int]]:
    """Every symbol of the library's full symbol table: type (1 is a variable, 2 a function), value and size by name."""
    data = path.read_bytes()
    if data[:5] != b"\x7fELF\x02":
        raise ValueError(f"{path} is not a 64-bit ELF file")
    table, entry_size, count, _ = _HEADER.unpack_from(data)
    sections = [_SECTION.unpack_from(data, table + i * entry_size) for i in range(count)]
    found: dict[str, tuple[int, int, int]] = {}
    for _, kind, _, _, offset, size, link, _, _, entry in sections:
        if kind != _SYMTAB:
            continue
        strings = sections[link][4]
        for at in range(offset, offset + size, entry):
            name_at, info, _, section, value, nbytes = _SYMBOL.unpack_from(data, at)
            if section:  # 0 is a symbol of another library
                start = strings + name_at
                found[data[start : data.index(b"\0", start)].decode()] = (info & 15, value, nbytes)
    return found


def variables(path: Path) -> dict[str, Variable]:
    """The variables of a library by their C++ names ("ns::filter"), static ones too."""
    found = {}
    for symbol, (kind, value, nbytes) in symbols(path).items():
        if kind == _OBJECT:
            name = demangle(symbol) if symbol.startswith("_Z") else symbol
            found[name.replace("(anonymous namespace)::", "")] = Variable(value, nbytes)
    return found


def load_address(library: ctypes.CDLL, path: Path, function: str) -> int:
    """Where a loaded library lies: the address of one of its functions less that function's value in the file."""
    address = ctypes.cast(getattr(library, function), ctypes.c_void_p).value or 0
    return address - symbols(path)[function][1]
