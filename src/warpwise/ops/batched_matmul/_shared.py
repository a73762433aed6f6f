"""Code that several rungs share: operands with one matrix for all products."""

from __future__ import annotations

import torch


def is_broadcast(operand: torch.Tensor) -> bool:
    """True if all products share one matrix."""
    return operand.dim() == 2 or operand.shape[0] == 1 or operand.stride(0) == 0


def one_matrix(operand: torch.Tensor) -> torch.Tensor:
    """``operand`` as a batch, of one matrix if all products share it."""
    matrices = operand if operand.dim() == 3 else operand[None]
    return matrices[:1] if is_broadcast(matrices) else matrices
