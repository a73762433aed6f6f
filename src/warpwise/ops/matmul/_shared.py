"""What the launchers of matmul's families share: sizes, limits and the folder that the kernels lie in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from warpwise.ops._common import cdiv

HERE = Path(__file__).parent
SIDE = 2**31 - 1024  # row, column and depth are 32 bits, and reach up to a tile past the end
GRID_Y = 65535

Launch = Callable[..., None]


def sizes(a: torch.Tensor, b: torch.Tensor) -> tuple[int, int, int]:
    """m, n and k."""
    return a.shape[0], b.shape[1], a.shape[1]


def shared_bytes(tensor: torch.Tensor) -> int:
    """Shared memory that a block may ask for on the tensor's GPU; none is needed on a CPU."""
    if not tensor.is_cuda:
        return 0
    properties: Any = torch.cuda.get_device_properties(tensor.device)
    return properties.shared_memory_per_block_optin


def too_large(a: torch.Tensor, b: torch.Tensor) -> str | None:
    for name, size in zip("mnk", sizes(a, b), strict=True):
        if size > SIDE:
            return f"takes sizes up to {SIDE}, not {name} = {size}"
    return None


def grid_of(tile: int, dimension: int) -> Callable[..., str | None]:
    """A rung's limits: 32-bit sizes, and 65535 tiles of ``tile`` in the dimension that grid.y counts (0: m, 1: n)."""

    def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
        if (size := sizes(a, b)[dimension]) > tile * GRID_Y:
            what = ("rows of a", "columns of b")[dimension]
            return f"takes up to {tile * GRID_Y} {what} (grid.y is 16 bits), not {size}"
        return too_large(a, b)

    return limits


def grid_of_tiles(a: torch.Tensor, b: torch.Tensor) -> str | None:
    m, n, _ = sizes(a, b)
    tiles = cdiv(m, 64) * cdiv(n, 64)
    return f"takes up to 2**31 - 1 tiles of 64 x 64, not {tiles}" if tiles >= 2**31 else too_large(a, b)
