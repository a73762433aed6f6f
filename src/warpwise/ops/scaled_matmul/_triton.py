"""Tiles and limits of the Triton rungs, apart from their kernels since these import Triton."""

from __future__ import annotations

import torch

from warpwise.gemm.limits import requires_k, requires_tma, tiles_limit
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv, sm_count
from warpwise.ops.scaled_matmul._operands import tma_limits


def tiles(a: torch.Tensor, b: torch.Tensor) -> tuple[int, int, int, int, int]:
    """BLOCK_M, BLOCK_N, BLOCK_K, warps and stages: large tiles where they fill the GPU."""
    m, n = a.shape[0], b.shape[1]
    if cdiv(m, 128) * cdiv(n, 128) >= sm_count(a) and not a.is_cpu:
        return 128, 128, 128, 8, 4
    return 64, 64, 128, 4, 4


def grid_of_tiles(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> str | None:
    if a.is_cuda and torch.cuda.get_device_capability(a.device) < (8, 9):
        return "takes a GPU of compute capability 8.9 or above, for which Triton has float8_e4m3fn"
    return tiles_limit(*sizes(a, b))


def descriptor_limits(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> str | None:
    """A GPU with TMA, which can address the operands and the result, and a grid of tiles."""
    return requires_k(a.shape[1]) or tma_limits(a, b) or requires_tma(a) or grid_of_tiles(a, b, scale_a, scale_b)
