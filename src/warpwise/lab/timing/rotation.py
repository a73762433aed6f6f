"""Copies of inputs to take in turn, so that small ones are not found in the cache."""

from __future__ import annotations

from typing import Any

import torch

MOST_SETS = 16
BEYOND = 2  # times the cache's size that all sets together have at least


def sets_needed(args: tuple[Any, ...], cache_bytes: int) -> int:
    """How many sets of the tensors among ``args`` exceed twice the cache, up to 16; one if a single set does not fit in it."""
    size = sum(value.nbytes for value in args if isinstance(value, torch.Tensor))
    if size == 0 or size >= cache_bytes:
        return 1
    return min(MOST_SETS, -(-BEYOND * cache_bytes // size))


def copied(value: Any) -> Any:
    """A copy of a tensor with the same shape, strides and offset in a storage of its own; anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    storage = value.untyped_storage().clone()
    made = torch.empty(0, dtype=value.dtype, device=value.device)
    return made.set_(storage, value.storage_offset(), value.shape, value.stride())


def rotated(args: tuple[Any, ...], cache_bytes: int) -> list[tuple[Any, ...]]:
    """``args`` and as many copies of them as are needed for ``cache_bytes``."""
    return [args, *(tuple(copied(value) for value in args) for _ in range(sets_needed(args, cache_bytes) - 1))]
