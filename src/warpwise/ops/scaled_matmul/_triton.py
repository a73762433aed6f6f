"""Tiles and limits of the Triton rungs, apart from their kernels since these import Triton."""

from __future__ import annotations

import torch

from warpwise.gemm.config import GemmConfig, parsed
from warpwise.gemm.limits import requires_k, requires_tma, tiles_limit
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv, sm_count
from warpwise.ops.scaled_matmul._operands import tma_limits

LARGE, SMALL = parsed("128x128x128_w8_s4", "64x64x128_w4_s4")


def tile_of(a: torch.Tensor, b: torch.Tensor) -> GemmConfig:
    """Large tiles where they fill the GPU."""
    fills = cdiv(a.shape[0], 128) * cdiv(b.shape[1], 128) >= sm_count(a)
    return LARGE if fills and not a.is_cpu else SMALL


def grid_of_tiles(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> str | None:
    if a.is_cuda and torch.cuda.get_device_capability(a.device) < (8, 9):
        return "takes a GPU of compute capability 8.9 or above, for which Triton has float8_e4m3fn"
    return tiles_limit(*sizes(a, b))


def descriptor_limits(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> str | None:
    """A GPU with TMA, which can address the operands and the result, and a grid of tiles."""
    return requires_k(a.shape[1]) or tma_limits(a, b) or requires_tma(a) or grid_of_tiles(a, b, scale_a, scale_b)
