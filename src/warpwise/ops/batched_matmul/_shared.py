"""What several rungs share: strides of an operand, limits of sizes and grids, configurations."""

from __future__ import annotations

import torch

from warpwise.gemm import boxes
from warpwise.gemm.limits import grid_of_tiles, requires_tma


def strides(matrices: torch.Tensor) -> tuple[int, int, int]:
    """The strides of matrices, rows and columns in elements; 0 for matrices if the operand has 2 dimensions."""
    across, along = matrices.stride()[-2:]
    return matrices.stride(0) if matrices.dim() == 3 else 0, across, along


def is_broadcast(operand: torch.Tensor) -> bool:
    """True if all products share one matrix."""
    return operand.dim() == 2 or operand.shape[0] == 1 or operand.stride(0) == 0


def descriptors_limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """A GPU with TMA, and matrices that it can address."""
    return requires_tma(a) or boxes.product_limit(a, b) or grid_of_tiles(a, b)
