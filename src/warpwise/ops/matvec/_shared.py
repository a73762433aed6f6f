"""Code that rungs share: the bytes of a load, the pitch of rows and columns, and memory for partial sums."""

from __future__ import annotations

import torch

from warpwise.cuda.gpu.semaphores import semaphores
from warpwise.operation import sm_count

THREADS = 256
WARP = 32  # lanes of a warp
WARPS = 8  # warps of a block of 256 threads
VECTOR = 16  # bytes of the widest load
FILL_BYTES = 1 << 25  # bytes of a matrix from which on it matters how full the last wave is
LEAST_USE = 0.93  # minimum fraction of one wave that such a matrix fills; else it has two waves
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


def parts_that_fill(a: torch.Tensor, tiles: int, resident: int) -> int:
    """Parts of each of ``tiles``, whose blocks fill the GPU, with up to ``resident`` blocks an SM.

    Of a large matrix they fill two waves, if more than 7 % of one would be empty: then some SMs have fewer blocks than
    others. 40001 x 1501 in float32 takes 80 µs in 323 blocks, 59 in 477.
    """
    slots, tiles = resident * sm_count(a), max(1, tiles)
    one, two = max(1, slots // tiles), max(1, 2 * slots // tiles)
    small = a.shape[0] * a.shape[1] * a.element_size() < FILL_BYTES
    return one if small or LEAST_USE * slots <= one * tiles <= slots else two


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


def column_major(a: torch.Tensor) -> torch.Tensor:
    """``a``, or a copy of it whose columns are contiguous."""
    return a if a.stride(0) == 1 else a.t().contiguous().t()


def column_pitch(a: torch.Tensor) -> int:
    """Elements from a column to the next of ``column_major(a)``."""
    return a.stride(1) if a.stride(0) == 1 else a.shape[0]


def column_load_bytes(a: torch.Tensor) -> int:
    """The widest load of a column of ``column_major(a)``, in bytes."""
    size = a.element_size()
    return load_bytes(size, a.data_ptr(), a.shape[0] * size, column_pitch(a) * size)
