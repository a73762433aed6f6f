"""The launcher of k02."""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch

from warpwise.gemm.operands import sizes


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    from warpwise.ops.matmul._c_library import library

    function = library(Path(__file__).with_suffix(".c")).matmul
    function.argtypes, function.restype = [ctypes.c_void_p] * 3 + [ctypes.c_long] * 3, None
    function(a.data_ptr(), b.data_ptr(), c.data_ptr(), *sizes(a, b))
