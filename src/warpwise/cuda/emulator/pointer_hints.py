"""Hints of accesses outside all arguments: which argument the pointer probably comes from."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import replace

from warpwise.cuda.errors import Finding
from warpwise.cuda.launch.arguments import Buffer, Scalar

IN_A_STRUCTURE = "the memory behind a pointer in a structure is known only in load_inline and `warpwise run`"
_ADDRESS = re.compile(r"\baddress 0x([0-9a-f]+): (?:null pointer|the address is not in an argument)")
_LOWEST_POINTER = 1 << 16  # smaller numbers are sizes and strides
_REACH = 1 << 32


def with_pointer_hint(found: Finding, arguments: Sequence[Buffer | Scalar]) -> Finding:
    """Return ``found``, with a hint if the accessed address is near a null pointer argument or behind a pointer in a
    structure passed by value.
    """
    named = None if found.hint else _ADDRESS.search(found.message)
    if named is None:
        return found
    address = int(named[1], 16)
    hint = (_null(found, arguments) if address < _REACH else "") or _in_a_structure(address, arguments)
    return replace(found, hint=hint) if hint else found


def _null(found: Finding, arguments: Sequence[Buffer | Scalar]) -> str:
    """Name the arguments without memory that the access may use; the kernel does not write through a const one."""
    writes = bool(found.access and found.access.what == "write")
    null = [part for part in arguments if isinstance(part, Buffer) and not part.nbytes and not (writes and part.const)]
    # None is never writable, an array is unless the host's is read-only.
    empty = [f"'{part.name}'" for part in null if part.writable]
    if empty:
        return f"{_and('argument', empty)} {'have' if empty[1:] else 'has'} 0 elements: the pointer is null"
    names = [f"'{part.name}'" for part in null]
    return f"{_and('argument', names)} {'are null pointers' if names[1:] else 'is a null pointer'}" if names else ""


def _and(noun: str, names: Sequence[str]) -> str:
    *first, last = names
    return f"{noun}s {', '.join(first)} and {last}" if first else f"{noun} {last}"


def _in_a_structure(address: int, arguments: Sequence[Buffer | Scalar]) -> str:
    for argument in arguments:
        data = getattr(argument, "data", b"")
        for word in struct.unpack_from(f"<{len(data) // 8}Q", data):
            if word >= _LOWEST_POINTER and 0 <= address - word < _REACH:
                return f"argument '{argument.name}' holds this pointer: {IN_A_STRUCTURE}"
    return ""
