"""Warpwise: write a GPU kernel, verify it, see why it is slow, and make it faster than PyTorch.

``cuda`` and ``triton`` run kernels on a GPU or, checked, on a CPU. ``explain`` predicts the time of a launch and gives
the reason. ``operation`` defines operations; ``lab`` verifies, times and tunes them; ``testing`` compares any function
with a reference. ``ops``, ``nn`` and ``optim`` are operations, modules and an optimizer with kernels of their own.
``device`` has the limits and the measured rates of devices, ``machine`` executes machine code on a CPU, and ``ranges``
names the ranges of a profile. Each is imported at its first use.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "__version__",
    "cuda",
    "device",
    "explain",
    "lab",
    "machine",
    "nn",
    "operation",
    "ops",
    "optim",
    "ranges",
    "testing",
    "triton",
]

if TYPE_CHECKING:
    from warpwise import cuda, device, lab, machine, nn, operation, ops, optim, ranges, testing, triton
    from warpwise.lab.explain import explain


def __getattr__(name: str) -> Any:
    """Import a part on first use: ``import warpwise`` itself costs milliseconds."""
    if name == "explain":
        from warpwise.lab.explain import explain

        return explain
    if name in __all__:
        return importlib.import_module(f"warpwise.{name}")
    raise AttributeError(f"module 'warpwise' has no attribute {name!r}")


if os.environ.get("WARPWISE_TUNE"):  # "online": the first call of a new shape measures
    importlib.import_module("warpwise.lab.tune.online").from_environment()
