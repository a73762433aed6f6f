"""Grids that the ladders of gaussian_blur and gaussian_blur_backward share."""

from __future__ import annotations

import torch

from warpwise.operation import cdiv

BLOCK = (32, 8)
MAX_GRID = 65535  # in y and in z


def extents(image: torch.Tensor) -> tuple[int, int, int]:
    """Planes, height, width."""
    height, width = image.shape[-2:]
    return image.numel() // (height * width), height, width


def grid(image: torch.Tensor, tile_x: int = BLOCK[0], tile_y: int = BLOCK[1]) -> tuple[int, int, int]:
    """Tiles in x and y, planes in z."""
    planes, height, width = extents(image)
    return cdiv(width, tile_x), cdiv(height, tile_y), min(planes, MAX_GRID)


def grid_limit(image: torch.Tensor, *_: object) -> str | None:
    """The message that a grid of blocks of (32, 8) is too large, or None."""
    blocks = cdiv(image.size(-2), BLOCK[1])
    return f"needs {blocks} blocks in y, beyond the {MAX_GRID} of a grid" if blocks > MAX_GRID else None
