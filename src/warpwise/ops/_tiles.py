"""Tiles for Triton kernels that read their factors by strides, and what a grid of tiles is limited to."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from warpwise.ops._common import cdiv, multiprocessors

SIDE = 2**31 - 1024  # row, column and depth are 32 bits, and reach up to a tile past the end
GRID_Y = 65535


class Tile(NamedTuple):
    """A configuration: the tile of the result, the depth of a slice, slices in flight, warps a program."""

    m: int
    n: int
    k: int
    stages: int
    warps: int

    @property
    def name(self) -> str:
        return f"{self.m}x{self.n}x{self.k}_s{self.stages}_w{self.warps}"

    @property
    def bytes(self) -> int:
        """Shared memory of the slices in flight, of 2-byte elements."""
        return 2 * self.stages * self.k * (self.m + self.n)


SMALL, FLOAT32 = Tile(64, 64, 64, 4, 4), Tile(64, 64, 32, 3, 4)
LARGE = (Tile(128, 256, 64, 3, 8), Tile(128, 128, 64, 4, 8))


def configs(tensor: torch.Tensor, m: int, n: int) -> tuple[str, ...]:
    """Tiles for an m by n result of ``tensor``'s dtype on its GPU, the one that a rung takes by itself first.

    float32 sums take the CUDA cores, whose tiles are small. Large tiles where they fill the GPU and fit its memory.
    """
    if tensor.dtype == torch.float32:
        return (FLOAT32.name,)
    large = [tile for tile in LARGE if tile.bytes <= shared_bytes(tensor)]
    fills = cdiv(m, LARGE[0].m) * cdiv(n, LARGE[0].n) >= multiprocessors(tensor)
    ordered = [*large, SMALL] if fills and LARGE[0] in large else [SMALL, *large]
    return tuple(tile.name for tile in ordered)


def named(name: str) -> Tile:
    """The tile called ``name``."""
    return next(tile for tile in (*LARGE, SMALL, FLOAT32) if tile.name == name)


def shared_bytes(tensor: torch.Tensor) -> int:
    """Shared memory that a block may ask for on the tensor's GPU; none is needed on a CPU."""
    if not tensor.is_cuda:
        return 0
    properties: Any = torch.cuda.get_device_properties(tensor.device)
    return int(properties.shared_memory_per_block_optin)


def too_large(m: int, n: int, k: int) -> str | None:
    for name, size in (("m", m), ("n", n), ("k", k)):
        if size > SIDE:
            return f"takes sizes up to {SIDE}, not {name} = {size}"
    return None


def rows_of_grid(m: int, n: int, k: int, rows: int) -> str | None:
    """Why a grid whose y counts blocks of ``rows`` rows cannot be, or None."""
    if m > rows * GRID_Y:
        return f"takes up to {rows * GRID_Y} rows (grid.y is 16 bits), not {m}"
    return too_large(m, n, k)


def grid_of_tiles(m: int, n: int, k: int) -> str | None:
    """Why a grid of one program a tile cannot be, or None."""
    tiles = cdiv(m, SMALL.m) * cdiv(n, SMALL.n)
    return f"takes up to 2**31 - 1 tiles of 64 x 64, not {tiles}" if tiles >= 2**31 else too_large(m, n, k)
