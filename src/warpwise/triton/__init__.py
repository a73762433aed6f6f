"""Triton kernels from Python: one kernel object, compiled for CUDA tensors, interpreted and checked for CPU tensors.

>>> from warpwise import triton as wt
>>> @wt.jit
... def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr): ...
>>> add[grid](x, y, out, n, BLOCK=1024)              # where x, y and out are
>>> add[grid].check(x, y, out, n, BLOCK=1024)        # every finding, on the CPU
"""

from __future__ import annotations

from triton import Config, cdiv, next_power_of_2

from warpwise.cuda.launch.views import out
from warpwise.triton.compiler import Compiled, compile
from warpwise.triton.kernel import Kernel, TunedKernel, autotune, heuristics, jit

__all__ = [
    "Compiled",
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
