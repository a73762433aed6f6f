"""Code that k03 and k04 share: the bytes of a load, and memory for partial sums."""

from __future__ import annotations

import torch

from warpwise.cuda.gpu.semaphores import semaphores

THREADS = 256
WARP, WARPS = 32, 8  # lanes of a warp; warps of a block of 256 threads
VECTOR = 16  # bytes of the widest load
MOST_PACKETS = 4096  # sums of splits, in the memory that a stream has for them


def aligned(size: int, *values: int) -> bool:
    """True if all values are multiples of ``size``."""
    return all(value % size == 0 for value in values)


def load_bytes(itemsize: int, *values: int) -> int:
    """The widest load whose size divides all values, in bytes."""
    size = VECTOR
    while size > itemsize and not aligned(size, *values):
        size //= 2
    return size


def partial_sums(y: torch.Tensor, splits: int) -> torch.Tensor:
    """(splits, m): memory for the partial sums of ``splits`` blocks, or ``y`` itself for one split."""
    return y.view(1, -1) if splits == 1 else y.new_empty((splits, len(y)), dtype=torch.float32)


def sums_of_splits(y: torch.Tensor, splits: int, together: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
    """``partial_sums``; or, ``together``, ``y`` itself and the workspace with which one launch adds the sums."""
    packets = (splits - 1) * len(y)
    if not together or not 0 < packets <= MOST_PACKETS:
        return partial_sums(y, splits), None
    return y.view(1, -1), semaphores(y, 2 * packets)


def row_pitch(a: torch.Tensor) -> int:
    """Elements from a row to the next, of a matrix whose rows are contiguous or copied; 0 if there is one row."""
    (m, k), (step, inner) = a.shape, a.stride()
    return 0 if m == 1 else step if inner == 1 else k
