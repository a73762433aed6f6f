"""What the launchers of matmul's families share: sizes, limits and the folder that the kernels lie in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from warpwise.ops import _tiles
from warpwise.ops._tiles import GRID_Y

HERE = Path(__file__).parent

Launch = Callable[..., None]


def sizes(a: torch.Tensor, b: torch.Tensor) -> tuple[int, int, int]:
    """m, n and k."""
    return a.shape[0], b.shape[1], a.shape[1]


def too_large(a: torch.Tensor, b: torch.Tensor) -> str | None:
    return _tiles.too_large(*sizes(a, b))


def grid_of(tile: int, dimension: int) -> Callable[..., str | None]:
    """A rung's limits: 32-bit sizes, and 65535 tiles of ``tile`` in the dimension that grid.y counts (0: m, 1: n)."""

    def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
        if (size := sizes(a, b)[dimension]) > tile * GRID_Y:
            what = ("rows of a", "columns of b")[dimension]
            return f"takes up to {tile * GRID_Y} {what} (grid.y is 16 bits), not {size}"
        return too_large(a, b)

    return limits


def grid_of_tiles(a: torch.Tensor, b: torch.Tensor) -> str | None:
    return _tiles.grid_of_tiles(*sizes(a, b))
