"""Configurations of Hopper's warp-specialised GEMM kernels for 2-byte operands, and their launch geometry."""

from __future__ import annotations

import functools
import math
import re
from typing import NamedTuple

import torch

from warpwise import cuda
from warpwise.gemm.limits import HOPPER_SHARED
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv, sm_count

BLOCK_K = 64  # of a stage: 128 bytes, a swizzled row
BOX_BYTES = 64 * 64 * 2

# Of an SM and clock: multiply-adds of 2-byte elements; bytes from L2 while all SMs read, without and with multicast.
# Clocks: from a tile to the next, for an element of the last tile's store, and for clusters in place of single blocks.
# The first is the hardware's; the others order the configurations as an H200 did at 15 sizes from 256 to 4096.
MMA_RATE, L2_RATE, MULTICAST_L2_RATE, TILE_CLOCKS, STORE_CLOCKS, CLUSTER_CLOCKS = 2048, 44, 38, 1200, 0.3, 8000


def ring_bytes(rows: int, columns: int, stages: int) -> int:
    """Bytes of shared memory: alignment, the stages of ``rows`` of A and ``columns`` of B, and two barriers each."""
    return 1024 + stages * ((rows + columns) * 2 * BLOCK_K + 16)


def shared_bytes(rows: int, columns: int, stages: int, warpgroups: int) -> int:
    """``ring_bytes``, and one or two boxes of C for each warpgroup, as they fit."""
    ring = ring_bytes(rows, columns, stages)
    return ring + (2 if ring + 2 * warpgroups * BOX_BYTES <= HOPPER_SHARED else 1) * warpgroups * BOX_BYTES


def config_numbers(op: str, config: str, form: re.Pattern[str]) -> tuple[int, ...]:
    """The numbers in a configuration's name. Raises ``ValueError`` for a name of another form."""
    found = form.fullmatch(config)
    if not found:
        raise ValueError(f"{op}: expected a configuration of the form {form.pattern}, got {config!r}")
    return tuple(int(number) for number in found.groups() if number)


class GemmConfig(NamedTuple):
    """A block's tile of C (rows, columns), the consumer warpgroups along its rows and columns, pipeline stages, and the
    blocks of a cluster along rows and columns, which multicast what they share."""

    rows: int
    columns: int
    groups: tuple[int, int]
    stages: int
    cluster: tuple[int, int]

    @property
    def name(self) -> str:
        return f"{self.rows}x{self.columns}x{BLOCK_K}_s{self.stages}_c{self.cluster[0]}x{self.cluster[1]}"

    @property
    def blocks(self) -> int:
        """Blocks of a cluster."""
        return self.cluster[0] * self.cluster[1]

    @property
    def warpgroups(self) -> int:
        """Consumer warpgroups of a block."""
        return self.groups[0] * self.groups[1]

    @property
    def shared(self) -> int:
        return shared_bytes(self.rows, self.columns, self.stages, self.warpgroups)

    def parameters(self, dtype: torch.dtype, a_mn_major: bool, b_mn_major: bool) -> str:
        """The template arguments of a kernel; an operand is K-major unless said otherwise."""
        numbers = (self.rows, self.columns, *self.groups, self.stages, *self.cluster)
        major = (str(value).lower() for value in (a_mn_major, b_mn_major))
        return ", ".join((cuda.ctype(dtype), *map(str, numbers), *major))

    def launch(self, clusters: int) -> tuple[int, int, int]:
        """Blocks, threads and bytes of shared memory of ``clusters`` clusters."""
        return clusters * self.blocks, 128 * (1 + self.warpgroups), self.shared

    def group(self, rows: int, clusters: int) -> int:
        """Rows of tiles, of ``rows``, that are rasterised together: clusters in flight cover about a square of C."""
        square = math.sqrt(clusters * self.columns * self.cluster[1] / (self.rows * self.cluster[0]))
        return min(max(1, round(square)), rows)

    def tiles(self, m: int, n: int) -> tuple[int, int]:
        """Rows and columns of cluster tiles in C."""
        return cdiv(m, self.rows * self.cluster[0]), cdiv(n, self.columns * self.cluster[1])

    def clusters(self, tiles: int, sms: int) -> int:
        """The smallest number of persistent clusters that takes as few waves as all that ``sms`` SMs hold."""
        most = max(1, sms // self.blocks)
        return cdiv(tiles, cdiv(tiles, most))

    def clocks(self, m: int, n: int, k: int, sms: int) -> float:
        """An estimate of the busiest SM's clocks: wgmma or loads from L2, and what does not overlap with them."""
        rows, columns = self.tiles(m, n)
        products = self.rows * self.columns * BLOCK_K / MMA_RATE
        rate = MULTICAST_L2_RATE if self.blocks > 1 else L2_RATE
        loads = (self.rows / self.cluster[1] + self.columns / self.cluster[0]) * 2 * BLOCK_K / rate
        waves = cdiv(rows * columns, max(1, sms // self.blocks))
        cluster = CLUSTER_CLOCKS if self.blocks > 1 else 0
        main_loop = waves * (cdiv(k, BLOCK_K) * max(products, loads) + TILE_CLOCKS)
        return main_loop + STORE_CLOCKS * self.rows * self.columns + cluster


CONFIGS = (
    GemmConfig(128, 256, (2, 1), 4, (2, 1)),
    GemmConfig(128, 256, (2, 1), 4, (1, 1)),
    GemmConfig(128, 192, (2, 1), 5, (1, 2)),
    GemmConfig(128, 192, (2, 1), 5, (1, 1)),
    GemmConfig(64, 256, (1, 2), 5, (2, 1)),
    GemmConfig(128, 128, (2, 1), 6, (2, 1)),
    GemmConfig(128, 128, (2, 1), 6, (1, 1)),
    GemmConfig(64, 128, (1, 2), 8, (1, 1)),
    GemmConfig(64, 64, (1, 1), 8, (1, 1)),
)
_NAMED = {config.name: config for config in CONFIGS}


def named(name: str) -> GemmConfig:
    """The configuration called ``name``. Raises ``ValueError`` listing all of them."""
    if name not in _NAMED:
        raise ValueError(f"matmul: expected config to be one of {', '.join(_NAMED)}, got {name!r}")
    return _NAMED[name]


@functools.lru_cache(maxsize=1024)
def ranked(m: int, n: int, k: int, sms: int) -> tuple[str, ...]:
    """The names of all configurations, the fastest by ``GemmConfig.clocks`` first."""
    return tuple(config.name for config in sorted(CONFIGS, key=lambda config: config.clocks(m, n, k, sms)))


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """``ranked`` for a (M, K) and b (K, N) on their GPU."""
    return ranked(*sizes(a, b), sm_count(a))


class TileScheduler(NamedTuple):
    """The launch of a persistent kernel: configuration, (blocks, threads, shared memory), order of tiles."""

    config: GemmConfig
    launch: tuple[int, int, int]
    tiles: tuple[int, int, int]  # rows and columns of cluster tiles, and rows that are rasterised together


def tile_scheduler(a: torch.Tensor, b: torch.Tensor, config: str | None) -> TileScheduler:
    """The launch of the configuration called ``config``, or of the fastest one."""
    m, n, k = sizes(a, b)
    sms = sm_count(a)
    chosen = named(config or ranked(m, n, k, sms)[0])
    rows, columns = chosen.tiles(m, n)
    clusters = chosen.clusters(rows * columns, sms)
    return TileScheduler(chosen, chosen.launch(clusters), (rows, columns, chosen.group(rows, clusters)))
