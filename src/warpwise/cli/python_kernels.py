"""The kernels that a Python module defines."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from warpwise import cuda

_TRITON = ("triton.runtime", "triton.experimental.gluon", "warpwise.triton")


def kernels_in(module: ModuleType) -> dict[str, Any]:
    """The kernels of a Python module by name: Triton kernels, CUDA kernels, and modules of ``cuda.load``."""
    found: dict[str, Any] = {}
    for name, value in vars(module).items():
        if isinstance(value, cuda.Module):
            found.update(dict.fromkeys(value.kernels, value))
        elif isinstance(value, cuda.Kernel):
            found[value.expression.partition("<")[0]] = value
        elif type(value).__module__.startswith(_TRITON) and hasattr(value, "arg_names"):
            found[name] = value
    return found
