"""The length and the memory order of one dimension."""

from __future__ import annotations

import torch


def length_along(tensor: torch.Tensor, dim: int) -> int:
    """The number of elements along ``dim``; 1 for a 0-D tensor."""
    return tensor.shape[dim] if tensor.dim() else 1


def is_last(tensor: torch.Tensor, dim: int) -> bool:
    """Whether ``dim`` is the innermost dimension of a contiguous tensor."""
    return tensor.dim() == 0 or dim in (-1, tensor.dim() - 1)
