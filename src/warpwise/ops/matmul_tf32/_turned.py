"""The launcher of k05, which turns a factor on its way to registers: which factor that is, and which tile."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv, multiprocessors, not_hopper
from warpwise.ops.matmul._bytes import turned
from warpwise.ops.matmul._shared import GRID_Y, sizes, too_large

TURNED = cuda.load(Path(__file__).parent / "k05_turned_in_registers.cu")
THREADS, DEPTH, LEAVING = 384, 32, 4 * 8192  # bytes of C on its way out
PRODUCTS, FROM_L2 = 1024, 46  # of an SM and clock: multiply-adds, and bytes from L2 while all SMs read


class Tile(NamedTuple):
    """A block's tile is 128 of the factor in registers by ``width`` of the other; slices in the ring, blocks that share."""

    width: int
    cluster: int
    stages: int

    @property
    def name(self) -> str:
        return f"128x{self.width}x{DEPTH}_s{self.stages}_c{self.cluster}"

    @property
    def shared(self) -> int:
        return 1024 + self.stages * ((128 + self.width) * DEPTH * 4 + 16) + LEAVING

    def tiles(self, first: int, second: int) -> tuple[int, int]:
        """The result in tiles of a cluster."""
        return cdiv(first, 128 * self.cluster), cdiv(second, self.width)

    def clocks(self, first: int, second: int, k: int, processors: int) -> float:
        """About what the busiest SM takes: its products, or its slices' way from L2, and the writing of its tiles; an eighth more
        for what that leaves out."""
        rows, columns = self.tiles(first, second)
        products = 128 * self.width * DEPTH / PRODUCTS
        arriving = (128 + self.width / self.cluster) * DEPTH * 4 / FROM_L2
        rounds = cdiv(rows * columns, max(1, processors // self.cluster))
        return 9 / 8 * rounds * (cdiv(k, DEPTH) * max(products, arriving) + 1000 + 12 * self.width)


TILES = (
    Tile(256, 2, 4),
    Tile(256, 1, 4),
    Tile(192, 2, 4),
    Tile(192, 1, 4),
    Tile(128, 2, 6),
    Tile(128, 1, 6),
    Tile(64, 1, 8),
)
_NAMED = {tile.name: tile for tile in TILES}


def addressable(matrix: torch.Tensor) -> bool:
    """Whether the copy engine can read the rows of ``matrix`` where they lie."""
    pitch, along = matrix.stride()
    return along == 1 and pitch % 4 == 0 and pitch >= matrix.shape[1] and matrix.data_ptr() % 16 == 0


def copied(matrix: torch.Tensor) -> torch.Tensor:
    """A copy whose rows begin on 16 bytes."""
    rows, columns = matrix.shape
    return matrix.new_empty((rows, cdiv(columns, 4) * 4))[:, :columns].copy_(matrix)


def along(matrix: torch.Tensor) -> torch.Tensor:
    """``matrix`` with addressable rows: itself or a copy."""
    if addressable(matrix):
        return matrix
    whole = matrix.t().is_contiguous() and matrix.shape[1] % 4 == 0 and matrix.shape[1] <= 32 * GRID_Y
    return turned(matrix.t()) if whole else copied(matrix)


def readable(matrix: torch.Tensor) -> torch.Tensor:
    """``matrix`` itself where its rows or its columns are addressable, or a copy in the same order."""
    if addressable(matrix) or addressable(matrix.t()):
        return matrix
    return copied(matrix.t()).t() if matrix.stride(0) == 1 else copied(matrix)


def roles(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, bool, bool]:
    """(first, second, across, turned): the first factor goes through registers, as (K, extent) where it lies ``across`` K, else
    (extent, K); the second is (extent, K). ``turned``: B comes first. What can be read neither way is copied, and one of two
    that lie across."""
    left, right = readable(a), readable(b.t())
    if not addressable(right):  # a row-major B
        return right.t(), along(left), True, True
    return (left, right, False, False) if addressable(left) else (left.t(), right, True, False)


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Every tile, the one that should be done first in front."""
    m, n, k = sizes(a, b)
    first, second = (m, n) if b.stride(0) == 1 else (n, m)
    processors = multiprocessors(a)
    return tuple(tile.name for tile in sorted(TILES, key=lambda tile: tile.clocks(first, second, k, processors)))


def turned_in_registers(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    m, n, k = sizes(a, b)
    tile = _NAMED[config or configs(a, b)[0]]
    first, second, across, turned = roles(a, b)
    rows, columns = tile.tiles(n if turned else m, m if turned else n)
    clusters = min(rows * columns, max(1, multiprocessors(a) // tile.cluster))
    group = max(1, round(math.sqrt(clusters * tile.width / (128 * tile.cluster))))
    maps = (
        cuda.tensor_map(first, (32, 32) if across else (128, DEPTH), tf32=True),
        cuda.tensor_map(second, (tile.width // tile.cluster, DEPTH), tf32=True),
    )
    flags = ", ".join(str(flag).lower() for flag in (across, turned))
    template = f"<{flags}, {tile.width}, {tile.cluster}, {tile.stages}>"
    geometry = k, rows, columns, min(group, rows)
    grid = clusters * tile.cluster, THREADS, tile.shared
    if n % 4 == 0 and c.data_ptr() % 16 == 0:
        boxes = TURNED[f"matmul_turned_in_registers{template}"]
        boxes[grid](*maps, cuda.tensor_map(c, (32, 32)), *geometry)
    else:
        TURNED[f"matmul_turned_in_registers_words{template}"][grid](*maps, cuda.out(c), m, n, *geometry)


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    return not_hopper(a) or too_large(a, b)
