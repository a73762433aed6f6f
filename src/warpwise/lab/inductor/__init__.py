"""What torch.compile makes of an expression, as a file of its own: the Triton kernels to start from."""

from __future__ import annotations

from warpwise.lab.inductor.generate import NEEDS, Generated, InductorError, generate
from warpwise.lab.inductor.parse import Kernel, NotWritable, Program, parse
from warpwise.lab.inductor.write import checked, standalone

__all__ = [
    "NEEDS",
    "Generated",
    "InductorError",
    "Kernel",
    "NotWritable",
    "Program",
    "checked",
    "generate",
    "parse",
    "standalone",
]
