"""Values of ``__constant__`` variables, which every kernel of a module sees."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from warpwise.cuda.errors import ArgumentError


class Constants:
    """What ``Module.set_constant`` was given: bytes by the variable's C++ name, and how often they changed."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.version = 0
        self._applied: dict[object, int] = {}

    def __bool__(self) -> bool:
        return bool(self.values)

    def set(self, name: str, value: Any) -> None:
        self.values[name] = to_bytes(name, value)
        self.version += 1
