"""Triton kernels: compiled and launched on a GPU for CUDA tensors, interpreted and checked on the CPU for CPU tensors.

>>> from warpwise import triton as wt
>>> @wt.jit
... def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr): ...
>>> add[grid](x, y, out, n, BLOCK=1024)              # on the device of x, y and out
>>> add[grid].check(x, y, out, n, BLOCK=1024)        # all findings, on the CPU
"""

from __future__ import annotations

from triton import Config, cdiv, next_power_of_2

from warpwise.cuda.launch.views import out
from warpwise.triton.compiler import CompiledKernel, compile
from warpwise.triton.kernel import Kernel, TunedKernel, autotune, heuristics, jit

__all__ = [
    "CompiledKernel",
    "Config",
    "Kernel",
    "TunedKernel",
    "autotune",
    "cdiv",
    "compile",
    "heuristics",
    "jit",
    "next_power_of_2",
    "out",
]
