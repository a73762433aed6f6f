"""Launchers of Hopper's kernels: the copy engine, warpgroup products, clusters."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv, multiprocessors, not_hopper
from warpwise.ops.matmul._shared import HERE, sizes, too_large
from warpwise.ops.matmul._skinny import laid_out, lying

WARPGROUPS = cuda.load(HERE / "k12_warpgroups.cu")
WARPGROUPS_SHARED = (
    1024 + 4 * (2 + 4) * 8192 + 4 * 8192 + 64
)  # alignment, four slices of A and B, C on its way, barriers
DEFERRED = cuda.load(HERE / "k20_deferred_stores.cu")
DEPTH = 64  # of a slice
BOX = 64 * 64 * 2  # bytes
ROOM = 227 * 1024  # bytes of shared memory that a block may have


def warpgroups(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    m, n, k = sizes(a, b)
    pairs, columns = cdiv(m, 256), cdiv(n, 256)
    clusters = min(pairs * columns, multiprocessors(a) // 2)
    maps = [cuda.tensor_map(matrix, (64, 64)) for matrix in (a, b, c)]
    kernel = WARPGROUPS[f"matmul_warpgroups<{cuda.ctype(a.dtype)}>"]
    kernel[2 * clusters, 384, WARPGROUPS_SHARED](*maps, k, pairs, columns, 8)


def copy_engine(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """The limits of k12: a Hopper GPU, and rows that the copy engine can address."""
    _, n, k = sizes(a, b)
    if reason := not_hopper(a):
        return reason
    if n % 8 or k % 8:
        return f"takes n and k in multiples of 8, whose rows begin on 16 bytes, not n = {n} and k = {k}"
    if any(matrix.data_ptr() % 16 and matrix.is_contiguous() for matrix in (a, b)):
        return "takes a and b that begin on 16 bytes"
    return too_large(a, b)


def ring_bytes(rows: int, columns: int, stages: int) -> int:
    """Bytes of shared memory: to align, slices of rows of A and columns of B, barriers."""
    return 1024 + stages * ((rows + columns) * 2 * DEPTH + 16)


def shared_bytes(rows: int, columns: int, stages: int, warpgroups: int) -> int:
    """``ring_bytes``, and one or two boxes of C a warpgroup, as they fit."""
    ring = ring_bytes(rows, columns, stages)
    return ring + (2 if ring + 2 * warpgroups * BOX <= ROOM else 1) * warpgroups * BOX


class Cut(NamedTuple):
    """A configuration of k20: a block's tile of C, the warpgroups along its rows and columns that multiply it, slices in
    the ring, and the tiles of a cluster, whose blocks load for each other what they share."""

    rows: int
    columns: int
    groups: tuple[int, int]
    stages: int
    cluster: tuple[int, int]

    @property
    def name(self) -> str:
        return f"{self.rows}x{self.columns}x{DEPTH}_s{self.stages}_c{self.cluster[0]}x{self.cluster[1]}"

    @property
    def blocks(self) -> int:
        """Blocks of a cluster."""
        return self.cluster[0] * self.cluster[1]

    @property
    def warpgroups(self) -> int:
        """Those that multiply."""
        return self.groups[0] * self.groups[1]

    @property
    def shared(self) -> int:
        """Bytes of shared memory."""
        return shared_bytes(self.rows, self.columns, self.stages, self.warpgroups)

    def parameters(self, dtype: torch.dtype, a_across: bool, b_across: bool) -> str:
        """As C++ takes them in a kernel's name, for operands whose rows run along K or, across, along M and N."""
        numbers = (self.rows, self.columns, *self.groups, self.stages, *self.cluster)
        across = (str(value).lower() for value in (a_across, b_across))
        return ", ".join((cuda.ctype(dtype), *map(str, numbers), *across))

    def grid(self, clusters: int) -> tuple[int, int, int]:
        """The launch of so many clusters: blocks, threads, bytes of shared memory."""
        return clusters * self.blocks, 128 * (1 + self.warpgroups), self.shared

    def group(self, rows: int, clusters: int) -> int:
        """Rows of tiles, of ``rows``, that go together: clusters in flight cover about a square of C."""
        square = math.sqrt(clusters * self.columns * self.cluster[1] / (self.rows * self.cluster[0]))
        return min(max(1, round(square)), rows)

    def tiles(self, m: int, n: int) -> tuple[int, int]:
        """C in tiles of a cluster."""
        return cdiv(m, self.rows * self.cluster[0]), cdiv(n, self.columns * self.cluster[1])

    def clusters(self, tiles: int, processors: int) -> int:
        """The fewest clusters that need no more rounds than all that the processors (SMs) hold."""
        most = max(1, processors // self.blocks)
        return cdiv(tiles, cdiv(tiles, most))

    def clocks(self, m: int, n: int, k: int, processors: int) -> float:
        """About what the busiest SM takes: its products, or its slices' way from L2, and what is not hidden under them."""
        rows, columns = self.tiles(m, n)
        products = self.rows * self.columns * DEPTH / PRODUCTS
        rate = SHARED_FROM_L2 if self.blocks > 1 else FROM_L2
        arriving = (self.rows / self.cluster[1] + self.columns / self.cluster[0]) * 2 * DEPTH / rate
        rounds = cdiv(rows * columns, max(1, processors // self.blocks))
        together = TOGETHER if self.blocks > 1 else 0
        return (
            rounds * (cdiv(k, DEPTH) * max(products, arriving) + BETWEEN)
            + WRITING * self.rows * self.columns
            + together
        )


# Of an SM and clock: multiply-adds of 2-byte elements; bytes from L2 while all SMs read, by blocks alone and by those that
# share. Clocks: from a tile to the next, for an element of the last tile on its way out, and for clusters in place of
# blocks. The first is the hardware's; the others order the cuts as an H200 did at 15 sizes from 256 to 4096.
PRODUCTS, FROM_L2, SHARED_FROM_L2, BETWEEN, WRITING, TOGETHER = 2048, 44, 38, 1200, 0.3, 8000

CUTS = (
    Cut(128, 256, (2, 1), 4, (2, 1)),
    Cut(128, 256, (2, 1), 4, (1, 1)),
    Cut(128, 192, (2, 1), 5, (1, 2)),
    Cut(128, 192, (2, 1), 5, (1, 1)),
    Cut(64, 256, (1, 2), 5, (2, 1)),
    Cut(128, 128, (2, 1), 6, (2, 1)),
    Cut(128, 128, (2, 1), 6, (1, 1)),
    Cut(64, 128, (1, 2), 8, (1, 1)),
    Cut(64, 64, (1, 1), 8, (1, 1)),
)
_NAMED = {cut.name: cut for cut in CUTS}


def named(config: str) -> Cut:
    """Raises ``ValueError`` for a name that is none of a cut."""
    if config not in _NAMED:
        raise ValueError(f"matmul: expected config to be one of {', '.join(_NAMED)}, got {config!r}")
    return _NAMED[config]


@functools.lru_cache(maxsize=1024)
def ranked(m: int, n: int, k: int, processors: int) -> tuple[str, ...]:
    return tuple(cut.name for cut in sorted(CUTS, key=lambda cut: cut.clocks(m, n, k, processors)))


def deferred_configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """All of them, the fastest as ``Cut.clocks`` has it first."""
    return ranked(*sizes(a, b), multiprocessors(a))


def deferred_kernel(
    dtype: torch.dtype, cut: Cut, a_across: bool, b_across: bool, name: str = "matmul_deferred_stores"
) -> str:
    """The C++ name of k20 cut so, for operands whose rows run along K or, across, along M and N."""
    return f"{name if cut.blocks > 1 else f'{name}_alone'}<{cut.parameters(dtype, a_across, b_across)}>"


def laid(
    a: torch.Tensor, b: torch.Tensor, config: str | None
) -> tuple[Cut, tuple[int, int, int], tuple[int, int, int]]:
    """The cut of k20 that ``config`` names or that is fastest here, its launch, and its rows, columns and group of tiles."""
    m, n, k = sizes(a, b)
    processors = multiprocessors(a)
    cut = named(config or ranked(m, n, k, processors)[0])
    rows, columns = cut.tiles(m, n)
    clusters = cut.clusters(rows * columns, processors)
    return cut, cut.grid(clusters), (rows, columns, cut.group(rows, clusters))


def deferred_stores(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    cut, grid, tiles = laid(a, b, config)
    (read_a, a_across), (read_b, b_by_columns) = laid_out(a), laid_out(b)
    maps = [cuda.tensor_map(matrix, (64, 64)) for matrix in (read_a, read_b, c)]
    DEFERRED[deferred_kernel(a.dtype, cut, a_across, not b_by_columns)][grid](*maps, a.shape[1], *tiles)


def boxes(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """The limits of k20: a Hopper GPU, rows of C that begin on 16 bytes, factors that lie so or can be copied so."""
    if reason := not_hopper(a):
        return reason
    _, n, k = sizes(a, b)
    if n % 8:
        return f"takes n in multiples of 8, so that rows of c begin on 16 bytes, not n = {n}"
    for name, matrix, columns in (("a", a, k), ("b", b, n)):
        if columns % 8 and lying(matrix) is None:
            return (
                f"takes {name} whose rows or columns begin on 16 bytes, or can be copied so, "
                f"not shape {tuple(matrix.shape)} with strides {matrix.stride()}"
            )
    return too_large(a, b)
