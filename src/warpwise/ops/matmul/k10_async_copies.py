"""The launcher of k10, and its limits."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm.limits import grid_of_tiles, requires_k
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv, sm_count

ASYNC_COPIES = cuda.load(Path(__file__).with_suffix(".cu"))


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    m, n, k = sizes(a, b)
    # 8 x 8 sums in 256 threads, two blocks per SM; 8 x 16 in 128, three blocks, where large tiles would not fill the
    # GPU.
    large = cdiv(m, 128) * cdiv(n, 128) >= 2 * sm_count(a)
    rows, threads, stages, arguments = (
        (128, 256, 3, "128, 128, 16, 32, 64, 4, 3, 2, false")
        if large
        else (64, 128, 4, "64, 128, 16, 32, 64, 4, 4, 3, true")
    )
    whole = n % 4 == 0 and b.data_ptr() % 16 == 0 and c.data_ptr() % 16 == 0
    tiles = cdiv(m, rows), cdiv(n, 128)
    kernel = ASYNC_COPIES[f"matmul_async_copies<{arguments}, {str(whole).lower()}>"]
    shared = stages * 16 * (rows + 4 + 128) * 4
    kernel[tiles[0] * tiles[1], threads, shared](a, b, cuda.out(c), m, n, k, *tiles, 8)


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """The limits: a grid of tiles, and K of at least 1, because the kernel loads a k-tile before its loop."""
    return requires_k(a.shape[1]) or grid_of_tiles(a, b)
