"""The launcher of k01, and its limits."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm.limits import GRID_Y
from warpwise.operation import cdiv
from warpwise.ops.batched_matmul._shared import sizes_limit, strides
from warpwise.ops.batched_matmul.spec import sizes

NAIVE = cuda.load(Path(__file__).with_suffix(".cu"))


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    batch, m, n, k = sizes(a, b)
    kernel = NAIVE[f"batched_matmul_naive<{cuda.ctype(a.dtype)}>"]
    grid = cdiv(n, 32), cdiv(m, 8), min(batch, GRID_Y)
    kernel[grid, (32, 8)](cuda.strided(a), cuda.strided(b), cuda.out(c), batch, m, n, k, *strides(a), *strides(b))


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    if sizes(a, b)[1] > 8 * GRID_Y:
        return f"takes up to {8 * GRID_Y} rows of a (grid.y is 16 bits), not {a.shape[-2]}"
    return sizes_limit(a, b)
