"""Values of ``__constant__`` variables, which every kernel of a module sees."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from warpwise.cuda import elf
from warpwise.cuda.errors import ArgumentError, CompileError
from warpwise.cuda.views import described

if TYPE_CHECKING:
    from warpwise.cuda.emulator.compiler import Build


class Constants:
    """What ``Module.set_constant`` was given: bytes by the variable's C++ name, and how often they changed."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.version = 0

    def __bool__(self) -> bool:
        return bool(self.values)

    def set(self, name: str, value: Any) -> None:
        self.values[name.replace(" ", "").removeprefix("::")] = to_bytes(name, value)
        self.version += 1

    def apply_to_library(self, build: Build) -> None:
        """Write the values into the library that an emulated launch is about to run.

        Modules of one source share its library, so what it holds is remembered by library and not by module.
        """
        held = _HELD.get(str(build.library))
        if held == (id(self), self.version):
            return
        library = ctypes.CDLL(str(build.library))
        there = elf.variables(build.library)
        base = elf.load_address(library, build.library, "ww_entry")
        for name, data in self.values.items():
            if name not in there:
                raise unknown(build.file, name)
            if len(data) != there[name].nbytes:
                raise wrong_size(build.file, name, len(data), there[name].nbytes)
            ctypes.memmove(base + there[name].offset, data, len(data))
        _HELD[str(build.library)] = (id(self), self.version)


_HELD: dict[str, tuple[int, int]] = {}


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


def unknown(file: str, name: str) -> CompileError:
    return CompileError(f"{file}: set_constant: no variable {name!r} is declared at file or namespace scope")


def wrong_size(file: str, name: str, given: int, size: int) -> ArgumentError:
    return ArgumentError(f"{file}: set_constant: {name} has {size:,} bytes, got {given:,}")
