"""The launcher of k05, and its configurations. The MN-major operand is transposed on its way to registers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import torch

from warpwise import cuda
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv, sm_count
from warpwise.ops.matmul_tf32._shared import aligned_copy, aligned_rows, k_major

TRANSPOSED = cuda.load(Path(__file__).with_suffix(".cu"))

THREADS, DEPTH, STAGING = 384, 32, 4 * 8192  # bytes of C's boxes
MMA_RATE, L2_RATE = 1024, 46  # of an SM and clock: multiply-adds, and bytes from L2 while all SMs read


class TransposedConfig(NamedTuple):
    """A block's tile: 128 rows of the register operand by ``width`` of the other; blocks of a cluster; stages."""

    width: int
    cluster: int
    stages: int

    @property
    def name(self) -> str:
        return f"128x{self.width}x{DEPTH}_s{self.stages}_c{self.cluster}"

    @property
    def shared(self) -> int:
        return 1024 + self.stages * ((128 + self.width) * DEPTH * 4 + 16) + STAGING

    def tiles(self, first: int, second: int) -> tuple[int, int]:
        """Rows and columns of cluster tiles in the result."""
        return cdiv(first, 128 * self.cluster), cdiv(second, self.width)

    def clocks(self, first: int, second: int, k: int, processors: int) -> float:
        """An estimate of the busiest SM's clocks: wgmma or loads from L2, and stores; 9/8 is fitted."""
        rows, columns = self.tiles(first, second)
        products = 128 * self.width * DEPTH / MMA_RATE
        arriving = (128 + self.width / self.cluster) * DEPTH * 4 / L2_RATE
        waves = cdiv(rows * columns, max(1, processors // self.cluster))
        return 9 / 8 * waves * (cdiv(k, DEPTH) * max(products, arriving) + 1000 + 12 * self.width)


CONFIGS = (
    TransposedConfig(256, 2, 4),
    TransposedConfig(256, 1, 4),
    TransposedConfig(192, 2, 4),
    TransposedConfig(192, 1, 4),
    TransposedConfig(128, 2, 6),
    TransposedConfig(128, 1, 6),
    TransposedConfig(64, 1, 8),
)
_NAMED = {tile.name: tile for tile in CONFIGS}


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    m, n, k = sizes(a, b)
    tile = _NAMED[config or configs(a, b)[0]]
    first, second, mn_major, swapped = roles(a, b)
    rows, columns = tile.tiles(n if swapped else m, m if swapped else n)
    clusters = min(rows * columns, max(1, sm_count(a) // tile.cluster))
    group = max(1, round(math.sqrt(clusters * tile.width / (128 * tile.cluster))))
    maps = (
        cuda.tensor_map(first, (32, 32) if mn_major else (128, DEPTH), tf32=True),
        cuda.tensor_map(second, (tile.width // tile.cluster, DEPTH), tf32=True),
    )
    flags = ", ".join(str(flag).lower() for flag in (mn_major, swapped))
    template = f"<{flags}, {tile.width}, {tile.cluster}, {tile.stages}>"
    geometry = k, rows, columns, min(group, rows)
    grid = clusters * tile.cluster, THREADS, tile.shared
    if n % 4 == 0 and c.data_ptr() % 16 == 0:
        boxes = TRANSPOSED[f"matmul_transposed_in_registers{template}"]
        boxes[grid](*maps, cuda.tensor_map(c, (32, 32)), *geometry)
    else:
        TRANSPOSED[f"matmul_transposed_in_registers_unaligned_c{template}"][grid](*maps, cuda.out(c), m, n, *geometry)


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Every configuration, the fastest by ``clocks`` first."""
    m, n, k = sizes(a, b)
    first, second = (m, n) if b.stride(0) == 1 else (n, m)
    processors = sm_count(a)
    return tuple(tile.name for tile in sorted(CONFIGS, key=lambda tile: tile.clocks(first, second, k, processors)))


def roles(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, bool, bool]:
    """(first, second, mn_major, swapped): the first operand goes through registers, as (K, extent) if it is MN-major,
    else as (extent, K); the second is (extent, K). ``swapped``: B is the first. What TMA can load in neither layout is
    copied, and one of two MN-major operands."""
    left, right = readable(a), readable(b.t())
    if not aligned_rows(right):  # a row-major B
        return right.t(), k_major(left), True, True
    return (left, right, False, False) if aligned_rows(left) else (left.t(), right, True, False)


def readable(matrix: torch.Tensor) -> torch.Tensor:
    """``matrix`` itself if TMA can load its rows or its columns, or a copy in the same layout."""
    if aligned_rows(matrix) or aligned_rows(matrix.t()):
        return matrix
    return aligned_copy(matrix.t()).t() if matrix.stride(0) == 1 else aligned_copy(matrix)
