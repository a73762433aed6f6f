"""Code that several rungs share: the strides of an operand, and broadcast operands."""

from __future__ import annotations

import torch


def strides(matrices: torch.Tensor) -> tuple[int, int, int]:
    """The strides of matrices, rows and columns in elements; 0 for matrices if the operand has 2 dimensions."""
    across, along = matrices.stride()[-2:]
    return matrices.stride(0) if matrices.dim() == 3 else 0, across, along


def is_broadcast(operand: torch.Tensor) -> bool:
    """True if all products share one matrix."""
    return operand.dim() == 2 or operand.shape[0] == 1 or operand.stride(0) == 0
