"""CUDA C++ kernels from Python: the same source on a GPU and, emulated and checked, on a CPU.

>>> module = ww.cuda.load("softmax.cu")
>>> module["softmax_rows<float>"][grid, block](x, ww.cuda.out(y), rows, cols)
"""

from __future__ import annotations

from typing import Any

from warpwise.cuda.errors import (
    Access,
    ArgumentError,
    BarrierDivergence,
    CompileError,
    DataRace,
    Deadlock,
    Finding,
    KernelAssertion,
    KernelError,
    KernelTimeout,
    LaunchError,
    MisalignedAccess,
    MissingTool,
    OutOfBounds,
    ReadOnlyWrite,
    SpecialValue,
    UndefinedBehaviour,
    UninitializedRead,
    UnsupportedFeature,
    UnwrittenOutput,
)
from warpwise.cuda.gpu.tensor_map import im2col_map, tensor_map
from warpwise.cuda.launch.arguments import TensorMap
from warpwise.cuda.launch.elements import ctype
from warpwise.cuda.launch.kernel import Kernel
from warpwise.cuda.launch.launcher import Launcher
from warpwise.cuda.launch.module import Module, load
from warpwise.cuda.launch.views import out, strided

__all__ = [
    "Access", "ArgumentError", "BarrierDivergence", "CompileError", "DataRace", "Deadlock", "Finding", "Kernel",
    "KernelAssertion", "KernelError", "KernelTimeout", "LaunchError", "Launcher", "MisalignedAccess", "MissingTool",
    "Module", "OutOfBounds", "ReadOnlyWrite", "SpecialValue", "TensorMap", "UndefinedBehaviour", "UninitializedRead",
    "UnsupportedFeature", "UnwrittenOutput", "ctype", "im2col_map", "load", "load_inline", "out", "strided",
    "tensor_map",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "load_inline":
        from warpwise.cuda.inline.load_inline import load_inline

        return load_inline
    raise AttributeError(f"module 'warpwise.cuda' has no attribute {name!r}")
