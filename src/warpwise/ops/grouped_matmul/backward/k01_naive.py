"""The launcher of k01, and its limits."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm.limits import GRID_Y, sizes_limit
from warpwise.operation import cdiv

NAIVE = cuda.load(Path(__file__).with_suffix(".cu"))


def launch(result: torch.Tensor, a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> None:
    (rows, k), n, groups = a.shape, grad_output.shape[1], offsets.shape[0]
    kernel = NAIVE[f"grouped_matmul_backward_naive<{cuda.ctype(a.dtype)}>"]
    kernel[(cdiv(n, 32), cdiv(k, 8), min(groups, GRID_Y)), (32, 8)](
        *(cuda.strided(a), cuda.strided(grad_output), offsets.contiguous(), cuda.out(result)),
        *(rows, n, k, groups, *a.stride(), *grad_output.stride()),
    )


def limits(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> str | None:
    if a.shape[1] > 8 * GRID_Y:
        return f"takes up to {8 * GRID_Y} columns of a (grid.y is 16 bits), not {a.shape[1]}"
    return sizes_limit(rows=a.shape[0], groups=offsets.shape[0], n=grad_output.shape[1])
