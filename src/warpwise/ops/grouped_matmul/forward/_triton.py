"""Limits and configurations of the Triton rungs, apart from their kernels since these import Triton."""

from __future__ import annotations

import torch

from warpwise.gemm import boxes
from warpwise.gemm.limits import requires_tma, tiles_limit
from warpwise.operation import cdiv

MAX_GROUPS = 4095  # and one more for the rows past the last end; a Triton program searches all at once


def padded_groups(groups: int) -> int:
    """The power of two that holds every group and the rows past the last end."""
    return 1 << groups.bit_length()


def tiles_limits(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> str | None:
    """A number of groups that one program can search, and a grid of tiles."""
    if b.shape[0] > MAX_GROUPS:
        return f"takes up to {MAX_GROUPS} groups, not {b.shape[0]}"
    tiles = (cdiv(a.shape[0], 64) + b.shape[0] + 1) * cdiv(b.shape[2], 64)
    return tiles_limit(tiles, rows=a.shape[0], groups=b.shape[0], n=b.shape[2], k=a.shape[1])


def descriptors_limits(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> str | None:
    """A GPU with TMA, and matrices that it can address."""
    if b.shape[0] == 0:
        return "takes 1 group or more, not 0"
    if boxes.transposed(a):
        return (
            f"takes a with contiguous rows, not strides {tuple(a.stride())}: a box begins at any row, but along it at "
            "multiples of 16 bytes"
        )
    return requires_tma(a) or boxes.product_limit(a, b) or tiles_limits(a, b, offsets)


def descriptors_configs(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> tuple[str, ...]:
    """Every tile, in the order that is estimated if all groups have the same number of rows."""
    return boxes.configs(a[: cdiv(a.shape[0], max(1, b.shape[0]))], b)
