"""The launcher of k01, and its limits."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm.limits import GRID_Y, sizes_limit
from warpwise.operation import cdiv

NAIVE = cuda.load(Path(__file__).with_suffix(".cu"))


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> None:
    (rows, k), n = a.shape, b.shape[2]
    kernel = NAIVE[f"grouped_matmul_naive<{cuda.ctype(a.dtype)}>"]
    kernel[(cdiv(n, 32), min(cdiv(rows, 8), GRID_Y)), (32, 8)](
        *(cuda.strided(a), cuda.strided(b), offsets.contiguous(), cuda.out(c)),
        *(rows, n, k, b.shape[0], *a.stride(), *b.stride()),
    )


def limits(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> str | None:
    return sizes_limit(rows=a.shape[0], groups=b.shape[0], n=b.shape[2], k=a.shape[1])
