"""The geometry that the ladders of batch_norm and batch_norm_backward share."""

from __future__ import annotations

import math
from typing import Any

import torch

from warpwise.operation import cdiv, sm_count

THREADS = 256  # kThreads of the kernels
BLOCKS_PER_SM = 4
FEWEST_ELEMENTS = 4096  # minimum number of elements of a block
FEWEST_INNER = 32  # minimum number of adjacent elements of a channel for which a rung is the default
MOST_ELEMENTS, MOST_CHANNELS = 2**30, 65535  # an index in a channel has 32 bits; grid.y counts channels


def sizes(input: torch.Tensor) -> tuple[int, int, int]:
    """(n, channels, inner)."""
    return input.shape[0], input.shape[1], math.prod(input.shape[2:])


def is_row_long(input: torch.Tensor) -> bool:
    """True if a warp that reads a channel of an image reads whole sectors. Otherwise PyTorch is the default."""
    return sizes(input)[2] >= FEWEST_INNER


def limits(input: torch.Tensor, *rest: Any) -> str | None:
    n, channels, inner = sizes(input)
    if n * inner > MOST_ELEMENTS or channels > MOST_CHANNELS:
        return f"takes up to {MOST_CHANNELS} channels of up to {MOST_ELEMENTS} elements, not {channels} of {n * inner}"
    return None


def parts(input: torch.Tensor) -> int:
    """Blocks per channel: enough to occupy the GPU, each with a few thousand elements."""
    n, channels, inner = sizes(input)
    return max(1, min(cdiv(BLOCKS_PER_SM * sm_count(input), channels), cdiv(n * inner, FEWEST_ELEMENTS)))


def vector(input: torch.Tensor, *others: torch.Tensor | None) -> int:
    """Elements per load: 4 if all vectors of all tensors are aligned to 16 bytes, else 1."""
    given = [tensor for tensor in (input, *others) if tensor is not None]
    aligned = all(tensor.data_ptr() % 16 == 0 for tensor in given)
    return 4 if sizes(input)[2] % 4 == 0 and aligned else 1
