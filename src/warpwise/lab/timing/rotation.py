"""Rotate through copies of small inputs, so that they are not in the cache."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.arguments.values import map_tensors, tensors

MOST_SETS = 16
BEYOND = 2  # minimum total size of all sets, in multiples of the cache size


def sets_needed(args: tuple[Any, ...], cache_bytes: int) -> int:
    """The number of copies of the tensors in ``args`` that exceed twice the cache, up to 16; 1 if one set does not fit
    in it.
    """
    size = sum(tensor.nbytes for tensor in tensors(args))
    if size == 0 or size >= cache_bytes:
        return 1
    return min(MOST_SETS, -(-BEYOND * cache_bytes // size))


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same shape, strides and offset, in a storage of its own."""
    storage = tensor.untyped_storage().clone()
    made = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return made.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())


def rotated(args: tuple[Any, ...], cache_bytes: int) -> list[tuple[Any, ...]]:
    """``args`` and the copies of them that ``cache_bytes`` requires."""
    return [args, *(map_tensors(copied, args) for _ in range(sets_needed(args, cache_bytes) - 1))]
