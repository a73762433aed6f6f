"""What operations along one dimension share: the check of ``dim`` and its length."""

from __future__ import annotations

from typing import Any

import torch


def check_dim(op: str, tensor: torch.Tensor, dim: Any) -> None:
    """Raise unless ``dim`` is a dimension of ``tensor``; one without dimensions has 0 and -1, as in PyTorch."""
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise TypeError(f"{op}: expected dim to be an int, got {type(dim).__name__}")
    count = max(tensor.dim(), 1)
    if not -count <= dim < count:
        raise ValueError(f"{op}: expected dim between {-count} and {count - 1}, got {dim}")


def length_along(tensor: torch.Tensor, dim: int) -> int:
    """Elements along ``dim``; 1 for a tensor without dimensions."""
    return tensor.shape[dim] if tensor.dim() else 1


def is_last(tensor: torch.Tensor, dim: int) -> bool:
    """Whether ``dim`` is the dimension whose elements are neighbours in a contiguous tensor."""
    return tensor.dim() == 0 or dim in (-1, tensor.dim() - 1)
