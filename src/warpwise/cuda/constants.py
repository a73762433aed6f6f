"""Values of ``__constant__`` variables, which every kernel of a module sees."""

from __future__ import annotations

import ctypes
import functools
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from warpwise.cuda.errors import ArgumentError
from warpwise.cuda.views import described

if TYPE_CHECKING:
    from warpwise.cuda.emulator.compiler import Build


class Constants:
    """What ``Module.set_constant`` was given: bytes by the variable's C++ name, and how often they changed."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.version = next(_VERSIONS)

    def __bool__(self) -> bool:
        return bool(self.values)

    def set(self, name: str, value: Any) -> None:
        self.values[name] = to_bytes(name, value)
        self.version = next(_VERSIONS)

    def apply_to_library(self, build: Build) -> None:
        """Write the values into the library that an emulated launch is about to run.

        A library holds the variables that its kernel needs, not all of the source's. Modules of one source share it,
        so what it holds is remembered by library and not by module.
        """
        held = str(build.library)
        if _HELD.get(held) == self.version:
            return
        there = library_variables(build.library)
        for name, data in self.values.items():
            if name in there:
                address, size = there[name]
                if len(data) != size:
                    raise wrong_size(build.file, name, len(data), size)
                ctypes.memmove(address, data, size)
        _HELD[held] = self.version


_HELD: dict[str, int] = {}
_VERSIONS = itertools.count()  # no two states of any module's constants share a number


class _Global(ctypes.Structure):
    """``ww_global`` of the emulator's abi.h: a variable of the kernel's library."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("element_bytes", ctypes.c_uint32),
        ("constant", ctypes.c_int),
    ]


@functools.lru_cache(maxsize=256)
def library_variables(path: Path) -> dict[str, tuple[int, int]]:
    """Address and bytes of a kernel library's global variables, by their names with namespaces."""
    library = ctypes.CDLL(str(path))
    library.ww_entry_globals.restype = ctypes.POINTER(_Global)
    count = ctypes.c_size_t()
    table = library.ww_entry_globals(ctypes.byref(count))
    return {entry.name.decode(): (entry.address, entry.bytes) for entry in table[: count.value] if entry.name}


def to_bytes(name: str, value: Any) -> bytes:
    """The bytes of an array or of a number that has a type. Raises ``ArgumentError`` for a plain Python number."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    if isinstance(value, np.ndarray | np.generic):
        return value.tobytes()
    if isinstance(value, ctypes._SimpleCData | ctypes.Structure | ctypes.Union | ctypes.Array | bytes | bytearray):
        return bytes(value)
    advice = "pass a tensor, an array or a NumPy scalar of the variable's own type, such as numpy.float32(0.5)"
    raise ArgumentError(f"set_constant({name!r}): got {described(value)}; {advice}")


def wrong_size(file: str, name: str, given: int, size: int) -> ArgumentError:
    return ArgumentError(f"{file}: set_constant: {name} has {size:,} bytes, got {given:,}")
