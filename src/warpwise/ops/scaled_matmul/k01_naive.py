"""The launcher of k01, and its limits."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm.limits import GRID_Y, size_limit
from warpwise.operation import cdiv
from warpwise.ops.scaled_matmul._operands import contiguous_operands, contiguous_scales

NAIVE = cuda.load(Path(__file__).with_suffix(".cu"))


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> None:
    left, right = contiguous_operands(a, b)
    scale_a, scale_b, by_row = contiguous_scales(scale_a, scale_b)
    (m, k), n = left.shape, right.shape[0]
    kernel = NAIVE[f"scaled_matmul_naive<{cuda.ctype(a.dtype)}, {cuda.ctype(b.dtype)}>"]
    kernel[(cdiv(n, 32), cdiv(m, 8)), (32, 8)](left, right, cuda.out(c), scale_a, scale_b, by_row, m, n, k)


def limits(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> str | None:
    if a.shape[0] > 8 * GRID_Y:
        return f"takes up to {8 * GRID_Y} rows of a (grid.y is 16 bits), not {a.shape[0]}"
    return size_limit(a, b)
