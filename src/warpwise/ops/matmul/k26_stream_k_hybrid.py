"""The launcher of k26, its configurations, and a model of their time.

The k-tiles of the last, partial wave are divided among all clusters.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch

from warpwise import cuda
from warpwise.gemm.config import BLOCK_K, CONFIGS, TILE_CLOCKS, GemmConfig, named
from warpwise.gemm.operands import sizes, tma_operand
from warpwise.gemm.semaphores import semaphores
from warpwise.operation import cdiv, sm_count
from warpwise.ops.matmul import k20_overlapped_epilogue as k20

STREAM_K_HYBRID = cuda.load(Path(__file__).with_suffix(".cu"))

FORM = re.compile(r"(\w+?)_t(\d+)_p(\d+)_e(\d+)")  # a configuration of k20, tiles, splits, owned k-tiles
# Measured on an H200. Clocks for an element of partial sums: to store it and start another piece, and to add it to the
# owner's; clocks that stream-K costs at all; the slowdown of loads at many different k, which then miss L2.
STORE, ADD, STREAM_K_CLOCKS, SCATTERED = 0.14, 0.08, 9500, 1.4
SURE, ROUGH = 1.005, 1.15  # the gain that is required: two whole waves hide the imbalance of the shares, fewer do not
SNAP = 3  # k-tiles: a share of linear stream-K ends at a tile's boundary that is as near as this
MOST_SPLITS = 16


class StreamK(NamedTuple):
    """A configuration of k26: that of k20, the number of cluster tiles that all clusters share, and how.

    ``parts`` = 0: linear stream-K, with shares of ``edge`` k-tiles at least. Else each tile has an owner, which computes
    its first ``edge`` k-tiles, and ``parts`` - 1 further splits.
    """

    config: GemmConfig
    tiles: int
    parts: int = 0
    edge: int = SNAP

    @property
    def name(self) -> str:
        return f"{self.config.name}_t{self.tiles}_p{self.parts}_e{self.edge}"

    def fits(self, tiles: int, slices: int, clusters: int) -> bool:
        """True if ``clusters`` can share C so: it has ``tiles`` tiles of ``slices`` k-tiles each."""
        if self.tiles > tiles or self.tiles * slices >= 1 << 31:
            return False
        helpers_enough = self.parts == 2 or self.parts * self.tiles <= clusters
        side_by_side = self.parts > 1 and 0 < self.tiles < clusters and 0 < self.edge <= slices - self.parts + 1
        return not self.parts or (side_by_side and helpers_enough)

    def slices(self, slices: int, clusters: int, storing: float, adding: float) -> float:
        """The busiest cluster's time before its whole tiles, in k-tiles; ``storing`` and ``adding`` partial sums included."""
        if not self.parts:
            share = self.tiles * slices / clusters
            return share * SCATTERED + storing + adding * cdiv(slices - 1, max(1, int(share)))
        helped = turns(self.tiles, clusters, self.parts) * (cdiv(slices - self.edge, self.parts - 1) + storing)
        return max(self.edge + adding * (self.parts - 1), helped)

    def clocks(self, m: int, n: int, k: int, sms: int) -> float:
        """An estimate of the busiest SM's clocks, comparable with ``GemmConfig.clocks``."""
        slices, clusters = cdiv(k, BLOCK_K), max(1, sms // self.config.blocks)
        elements = self.config.rows * self.config.columns
        k_tile, ends = k_tile_clocks(self.config, sms), self.config.clocks(1, 1, 0, sms)
        shared = self.slices(slices, clusters, STORE * elements / k_tile, ADD * elements / k_tile)
        waves = (math.prod(self.config.tiles(m, n)) - self.tiles) // clusters
        clocks = (shared + waves * slices) * k_tile + waves * TILE_CLOCKS + STREAM_K_CLOCKS + ends
        return clocks * (SURE if waves > 1 else ROUGH)


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    m, n, k = sizes(a, b)
    sms = sm_count(a)
    config = config or ranked(m, n, k, sms)[0]
    if "_t" not in config:
        return k20.launch(c, a, b, config)
    found = parsed(config)
    chosen, slices, clusters = found.config, cdiv(k, BLOCK_K), max(1, sms // found.config.blocks)
    rows, columns = chosen.tiles(m, n)
    if not found.fits(rows * columns, slices, clusters):
        raise ValueError(
            f"matmul: expected a configuration for shapes {tuple(a.shape)} and {tuple(b.shape)}, got {config}"
        )
    (read_a, a_mn_major), (read_b, b_k_major) = tma_operand(a), tma_operand(b)
    grid = chosen.launch(clusters)
    sums = c.new_empty(grid[0] * chosen.rows * chosen.columns, dtype=torch.float32)
    flags = semaphores(a, grid[0] * chosen.warpgroups)
    maps = [cuda.tensor_map(matrix, (64, 64)) for matrix in (read_a, read_b, c)]
    group = chosen.group(rows, clusters)
    launcher = STREAM_K_HYBRID[kernel_name(a.dtype, chosen, a_mn_major, not b_k_major)][grid]
    launcher(*maps, sums, flags, slices, rows, columns, group, found.tiles, found.parts, found.edge)


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """The twelve fastest by ``clocks``."""
    return ranked(*sizes(a, b), sm_count(a))[:12]


def is_profitable(a: torch.Tensor, b: torch.Tensor) -> bool:
    """True if stream-K is estimated to be faster than whole tiles alone."""
    return "_t" in ranked(*sizes(a, b), sm_count(a))[0]


@functools.lru_cache(maxsize=1024)
def ranked(m: int, n: int, k: int, sms: int) -> tuple[str, ...]:
    """Names of configurations, k20's for whole tiles alone, the fastest by ``clocks`` first."""
    found: list[GemmConfig | StreamK] = [*CONFIGS]
    for config in reversed(CONFIGS):  # of equal estimates 128 x 128 comes before 64 x 256: it was 4 to 12 % faster
        found += stream_k_configs(config, m, n, k, sms)
    return tuple(each.name for each in sorted(found, key=lambda each: each.clocks(m, n, k, sms)))


def stream_k_configs(config: GemmConfig, m: int, n: int, k: int, sms: int) -> Iterator[StreamK]:
    """The ways to share the last, partial wave: linear stream-K, and split-K with each number of splits."""
    tiles, slices, clusters = math.prod(config.tiles(m, n)), cdiv(k, BLOCK_K), max(1, sms // config.blocks)
    left = tiles % clusters
    if not left or left * slices >= 1 << 31:
        return
    yield StreamK(config, left)
    scale = config.rows * config.columns / k_tile_clocks(config, sms)
    for parts in range(2, MOST_SPLITS + 1):
        if (parts > 2 and parts * left > clusters) or parts > slices:
            return
        others, often = parts - 1, turns(left, clusters, parts)
        # Owner and others end together: edge + others * adding = often * ((slices - edge) / others + storing).
        edge = round((often * (slices / others + STORE * scale) - others * ADD * scale) / (1 + often / others))
        yield StreamK(config, left, parts, max(1, min(edge, slices - others)))


def parsed(config: str) -> StreamK:
    """The stream-K configuration of that name. Raises ``ValueError`` for a name of another form."""
    if not (found := FORM.fullmatch(config)):
        raise ValueError(f"matmul: expected a configuration of the form {FORM.pattern}, got {config!r}")
    return StreamK(named(found[1]), int(found[2]), int(found[3]), int(found[4]))


def kernel_name(dtype: torch.dtype, config: GemmConfig, a_mn_major: bool, b_mn_major: bool) -> str:
    """k26's C++ name; an operand is K-major unless said otherwise."""
    return f"matmul_stream_k_hybrid<{config.parameters(dtype, a_mn_major, b_mn_major)}>"


def k_tile_clocks(config: GemmConfig, sms: int) -> float:
    return (config.clocks(1, 1, 1000 * BLOCK_K, sms) - config.clocks(1, 1, 0, sms)) / 1000


def turns(tiles: int, clusters: int, parts: int) -> int:
    """The number of tiles that a cluster without a tile of its own computes splits of, one after another."""
    return cdiv(tiles, min(clusters - tiles, tiles * (parts - 1)))
