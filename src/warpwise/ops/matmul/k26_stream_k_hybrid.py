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
from warpwise.cuda.gpu.semaphores import semaphores
from warpwise.gemm.config import BLOCK_K, CONFIGS, TILE_CLOCKS, GemmConfig, named
from warpwise.gemm.operands import sizes, tma_operand
from warpwise.operation import cdiv, sm_count
from warpwise.ops.matmul import k20_overlapped_epilogue as k20

STREAM_K_HYBRID = cuda.load(Path(__file__).with_suffix(".cu"))

FORM = re.compile(r"(\w+?)_t(\d+)_p(\d+)_e(\d+)")  # a configuration of k20, tiles, splits, owned k-tiles
# Measured on an H200. Clocks for an element of partial sums: to store it and start another work unit, and to add it to
# the owner's; fixed clocks of stream-K; the slowdown of loads at many different k, which then miss L2.
STORE, ADD, STREAM_K_CLOCKS, SCATTERED = 0.14, 0.08, 9500, 1.4
MIN_GAIN, MIN_GAIN_SHORT = 1.005, 1.15  # the estimated gain that is required: with two or more whole waves, with fewer
SNAP = 3  # k-tiles: a boundary of linear stream-K within this distance of a tile's boundary is moved to it
MOST_SPLITS = 16


class StreamK(NamedTuple):
    """A configuration of k26: k20's, and the number of cluster tiles whose k-tiles all clusters divide.

    ``splits`` = 0: linear stream-K, whose boundaries within ``edge`` k-tiles of a tile's boundary are moved to it. Else
    each tile has an owner, which computes its first ``edge`` k-tiles, and ``splits`` - 1 further splits.
    """

    config: GemmConfig
    tiles: int
    splits: int = 0
    edge: int = SNAP

    @property
    def name(self) -> str:
        return f"{self.config.name}_t{self.tiles}_p{self.splits}_e{self.edge}"

    def fits(self, tiles: int, k_tiles: int, clusters: int) -> bool:
        """True if ``clusters`` clusters can so compute a C of ``tiles`` tiles with ``k_tiles`` k-tiles each."""
        if self.tiles > tiles or self.tiles * k_tiles >= 1 << 31:
            return False
        enough_clusters = self.splits == 2 or self.splits * self.tiles <= clusters
        valid_split = self.splits > 1 and 0 < self.tiles < clusters and 0 < self.edge <= k_tiles - self.splits + 1
        return not self.splits or (valid_split and enough_clusters)

    def stream_k_time(self, k_tiles: int, clusters: int, storing: float, adding: float) -> float:
        """The busiest cluster's time before its whole tiles, in k-tiles; ``storing``, ``adding``: of partial sums."""
        if not self.splits:
            share = self.tiles * k_tiles / clusters
            return share * SCATTERED + storing + adding * cdiv(k_tiles - 1, max(1, int(share)))
        contributed = tiles_of_contributor(self.tiles, clusters, self.splits) * (
            cdiv(k_tiles - self.edge, self.splits - 1) + storing
        )
        return max(self.edge + adding * (self.splits - 1), contributed)

    def clocks(self, m: int, n: int, k: int, sms: int) -> float:
        """An estimate of the busiest SM's clocks, comparable with ``GemmConfig.clocks``."""
        k_tiles, clusters = cdiv(k, BLOCK_K), max(1, sms // self.config.blocks)
        elements = self.config.rows * self.config.columns
        k_tile, ends = k_tile_clocks(self.config, sms), self.config.clocks(1, 1, 0, sms)
        shared = self.stream_k_time(k_tiles, clusters, STORE * elements / k_tile, ADD * elements / k_tile)
        waves = (math.prod(self.config.tiles(m, n)) - self.tiles) // clusters
        clocks = (shared + waves * k_tiles) * k_tile + waves * TILE_CLOCKS + STREAM_K_CLOCKS + ends
        return clocks * (MIN_GAIN if waves > 1 else MIN_GAIN_SHORT)


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    m, n, k = sizes(a, b)
    sms = sm_count(a)
    config = config or ranked(m, n, k, sms)[0]
    if "_t" not in config:
        return k20.launch(c, a, b, config)
    found = parsed(config)
    chosen, k_tiles, clusters = found.config, cdiv(k, BLOCK_K), max(1, sms // found.config.blocks)
    rows, columns = chosen.tiles(m, n)
    if not found.fits(rows * columns, k_tiles, clusters):
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
    launcher(*maps, sums, flags, k_tiles, rows, columns, group, found.tiles, found.splits, found.edge)


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
    """The ways to divide the last, partial wave: linear stream-K, and split-K with each number of splits."""
    tiles, k_tiles, clusters = math.prod(config.tiles(m, n)), cdiv(k, BLOCK_K), max(1, sms // config.blocks)
    left = tiles % clusters
    if not left or left * k_tiles >= 1 << 31:
        return
    yield StreamK(config, left)
    scale = config.rows * config.columns / k_tile_clocks(config, sms)
    for splits in range(2, MOST_SPLITS + 1):
        if (splits > 2 and splits * left > clusters) or splits > k_tiles:
            return
        contributors, each = splits - 1, tiles_of_contributor(left, clusters, splits)
        # The owner and the contributors finish together:
        # edge + contributors * adding = each * ((k_tiles - edge) / contributors + storing).
        edge = round(
            (each * (k_tiles / contributors + STORE * scale) - contributors * ADD * scale) / (1 + each / contributors)
        )
        yield StreamK(config, left, splits, max(1, min(edge, k_tiles - contributors)))


def parsed(config: str) -> StreamK:
    """The stream-K configuration of that name. Raises ``ValueError`` for a name of another form."""
    if not (found := FORM.fullmatch(config)):
        raise ValueError(f"matmul: expected a configuration of the form {FORM.pattern}, got {config!r}")
    return StreamK(named(found[1]), int(found[2]), int(found[3]), int(found[4]))


def kernel_name(dtype: torch.dtype, config: GemmConfig, a_mn_major: bool, b_mn_major: bool) -> str:
    """The C++ name of k26."""
    return f"matmul_stream_k_hybrid<{config.parameters(dtype, a_mn_major, b_mn_major)}>"


def k_tile_clocks(config: GemmConfig, sms: int) -> float:
    return (config.clocks(1, 1, 1000 * BLOCK_K, sms) - config.clocks(1, 1, 0, sms)) / 1000


def tiles_of_contributor(tiles: int, clusters: int, splits: int) -> int:
    """The number of tiles that a cluster without a tile of its own computes splits of, one after another."""
    return cdiv(tiles, min(clusters - tiles, tiles * (splits - 1)))
