"""The length and the memory order of one dimension."""

from __future__ import annotations

import math

import torch


def length_along(tensor: torch.Tensor, dim: int) -> int:
    """The number of elements along ``dim``; 1 for a 0-D tensor."""
    return tensor.shape[dim] if tensor.dim() else 1


def inner_size(tensor: torch.Tensor, dim: int) -> int:
    """The number of elements after ``dim``: the stride of ``dim`` if ``tensor`` is contiguous; 1 for a 0-D tensor."""
    return math.prod(tensor.shape[dim % tensor.dim() + 1 :]) if tensor.dim() else 1


def is_last(tensor: torch.Tensor, dim: int) -> bool:
    """True if the elements along ``dim`` are adjacent in a contiguous tensor, as a single element always is."""
    return inner_size(tensor, dim) == 1 or length_along(tensor, dim) == 1
