"""Values of ``__constant__`` variables, which all kernels of a module share."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np
import torch

from warpwise.cuda.errors import ArgumentError
from warpwise.cuda.launch.views import described

_VERSIONS = itertools.count()  # no two states of any module's constants have the same number


class Constants:
    """Values set by ``Module.set_constant``: bytes by the variable's C++ name. ``version`` changes with each."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.version = next(_VERSIONS)

    def __bool__(self) -> bool:
        return bool(self.values)

    def set(self, name: str, value: Any) -> None:
        self.values[name] = to_bytes(name, value)
        self.version = next(_VERSIONS)


def to_bytes(name: str, value: Any) -> bytes:
    """The bytes of an array or a typed number. Raises ``ArgumentError`` for a plain Python number."""
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
