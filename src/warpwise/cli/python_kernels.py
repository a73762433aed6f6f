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
        elif hasattr(value, "arg_names") and _is_of_triton(type(value)):
            found[name] = value
    return found


def _is_of_triton(kind: type) -> bool:
    """Return True for a class of Triton's or of ``warpwise.triton``, and for a subclass, such as an own autotuner."""
    return any(base.__module__.startswith(_TRITON) for base in kind.__mro__)
