"""Rotate through copies of small inputs, so that they are not in the cache."""

from __future__ import annotations

from typing import Any

import torch

MOST_SETS = 16
BEYOND = 2  # least size of all sets together in cache sizes


def sets_needed(args: tuple[Any, ...], cache_bytes: int) -> int:
    """The number of copies of the tensors in ``args`` that exceed twice the cache, up to 16; 1 if one set does not fit
    in it.
    """
    size = sum(value.nbytes for value in args if isinstance(value, torch.Tensor))
    if size == 0 or size >= cache_bytes:
        return 1
    return min(MOST_SETS, -(-BEYOND * cache_bytes // size))


def copied(value: Any) -> Any:
    """A copy of a tensor with the same shape, strides and offset in its own storage; other values unchanged."""
    if not isinstance(value, torch.Tensor):
        return value
    storage = value.untyped_storage().clone()
    made = torch.empty(0, dtype=value.dtype, device=value.device)
    return made.set_(storage, value.storage_offset(), value.shape, value.stride())


def rotated(args: tuple[Any, ...], cache_bytes: int) -> list[tuple[Any, ...]]:
    """``args`` and the copies of them that ``cache_bytes`` requires."""
    return [args, *(tuple(copied(value) for value in args) for _ in range(sets_needed(args, cache_bytes) - 1))]
