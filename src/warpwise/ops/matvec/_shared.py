"""Code that k03 and k04 share: alignment, and memory for partial sums."""

from __future__ import annotations

import re

import torch

from warpwise.cuda.gpu.semaphores import semaphores

THREADS = 256
WARP, WARPS = 32, 8  # a block's, of 256 threads


def aligned(size: int, *values: int) -> bool:
    """True if all values are multiples of ``size``."""
    return all(value % size == 0 for value in values)


def partial_sums(y: torch.Tensor, groups: int, splits: int) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Memory for the partial sums of ``splits`` blocks, and a semaphore for each group of rows; None for one split."""
    if splits == 1:
        return None, None
    return y.new_empty((splits, len(y)), dtype=torch.float32), semaphores(y, groups)


def config_numbers(op: str, config: str, form: re.Pattern[str]) -> tuple[int, ...]:
    """The numbers in a configuration's name. Raises ``ValueError`` for a name of another form."""
    if found := form.fullmatch(config):
        return tuple(map(int, found.groups()))
    raise ValueError(f"{op}: expected a configuration of the form {form.pattern}, got {config!r}")
