"""The launcher of k03."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv

NAIVE = cuda.load(Path(__file__).with_suffix(".cu"))


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    m, n, k = sizes(a, b)
    types = cuda.ctype(a.dtype) if c.dtype == a.dtype else f"{cuda.ctype(a.dtype)}, {cuda.ctype(c.dtype)}"
    NAIVE[f"matmul_naive<{types}>"][(cdiv(m, 32), cdiv(n, 32)), (32, 32)](a, b, cuda.out(c), m, n, k)
