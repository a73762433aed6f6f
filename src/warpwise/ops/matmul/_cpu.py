"""Launchers of the first rungs, which run on a CPU."""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch

from warpwise.gemm.operands import sizes

HERE = Path(__file__).parent

PYTHON_PRODUCTS = 2**17  # multiply-adds: some 10 ms in Python


def python_loops(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    from warpwise.ops.matmul.k01_python_loops import multiply

    multiply(c, a, b)


def c_blocked(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    from warpwise.ops.matmul._c import library

    function = library(HERE / "k02_c_blocked.c").matmul
    function.argtypes, function.restype = [ctypes.c_void_p] * 3 + [ctypes.c_long] * 3, None
    function(a.data_ptr(), b.data_ptr(), c.data_ptr(), *sizes(a, b))


def few_products(a: torch.Tensor, b: torch.Tensor) -> str | None:
    m, n, k = sizes(a, b)
    if m * n * k > PYTHON_PRODUCTS:
        return f"takes up to {PYTHON_PRODUCTS} multiply-adds, not {m} x {n} x {k} = {m * n * k}"
    return None
