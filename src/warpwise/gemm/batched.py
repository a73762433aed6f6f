"""Configurations of Hopper's GEMM kernels for batches of 2-byte matrices, without clusters."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import torch

from warpwise import cuda
from warpwise.gemm.config import BLOCK_K, ring_bytes, shared_bytes
from warpwise.operation import cdiv

# Of an SM and clock: multiply-adds, bytes from L2, bytes to DRAM while all SMs write; further clocks of a tile.
MMA_RATE, L2_RATE, DRAM_RATE, TILE_CLOCKS = 2048, 46, 14, 1000


class BatchedConfig(NamedTuple):
    """A block's tile of C, consumer warpgroups along its rows and columns, pipeline stages; ``whole``: C's tile has its
    own shared memory and is stored at once, not box by box under the next tile's products."""

    rows: int
    columns: int
    groups: tuple[int, int]
    stages: int
    whole: bool = False

    @property
    def name(self) -> str:
        return f"{self.rows}x{self.columns}x{BLOCK_K}_s{self.stages}{'_whole' if self.whole else ''}"

    @property
    def warpgroups(self) -> int:
        """Consumer warpgroups."""
        return self.groups[0] * self.groups[1]

    @property
    def shared(self) -> int:
        """Bytes of shared memory: alignment, stages, barriers; a tile of C, or one or two boxes for each warpgroup."""
        if self.whole:
            return ring_bytes(self.rows, self.columns, self.stages) + 2 * self.rows * self.columns
        return shared_bytes(self.rows, self.columns, self.stages, self.warpgroups)

    @property
    def threads(self) -> int:
        return 128 * (1 + self.warpgroups)

    def parameters(self, dtype: torch.dtype) -> str:
        """The kernel's first template arguments."""
        return ", ".join((cuda.ctype(dtype), *map(str, (self.rows, self.columns, *self.groups, self.stages))))

    def grid(self, batch: int, m: int, n: int, sms: int) -> tuple[int, int, int, int]:
        """Blocks; rows and columns of tiles in a matrix; rows of tiles that are rasterised together.

        Tiles in flight cover about a square of C, or two rows of tiles where the store is the bottleneck.
        """
        rows, columns = cdiv(m, self.rows), cdiv(n, self.columns)
        blocks = min(batch * rows * columns, sms)
        together = 2 if self.whole else round(math.sqrt(blocks * self.columns / self.rows))
        return blocks, rows, columns, max(1, min(rows, together))

    def clocks(self, batch: int, m: int, n: int, k: int, sms: int) -> float:
        """An estimate of the busiest SM's clocks: the longest of wgmma, loads from L2 and stores to DRAM."""
        waves = cdiv(batch * cdiv(m, self.rows) * cdiv(n, self.columns), sms)
        products = self.rows * self.columns * BLOCK_K / MMA_RATE
        loads = (self.rows + self.columns) * 2 * BLOCK_K / L2_RATE
        stores = 2 * self.rows * self.columns / DRAM_RATE
        tile = TILE_CLOCKS / (2 if self.whole else 1)
        return waves * (max(cdiv(k, BLOCK_K) * max(products, loads), stores) + tile)


CONFIGS = (
    BatchedConfig(128, 256, (2, 1), 3, whole=True),
    BatchedConfig(128, 256, (2, 1), 4),
    BatchedConfig(128, 128, (2, 1), 6),
    BatchedConfig(64, 256, (1, 2), 5),
    BatchedConfig(64, 128, (1, 2), 8),
    BatchedConfig(64, 64, (1, 1), 8),
)
_NAMED = {config.name: config for config in CONFIGS}


def named(name: str) -> BatchedConfig:
    """The configuration called ``name``."""
    return _NAMED[name]


@functools.lru_cache(maxsize=1024)
def ranked(batch: int, m: int, n: int, k: int, sms: int) -> tuple[str, ...]:
    """The names of all configurations, the fastest by ``clocks`` first; whole stores for up to two k-tiles."""
    found = [config for config in CONFIGS if not config.whole or k <= 2 * BLOCK_K]
    return tuple(config.name for config in sorted(found, key=lambda config: config.clocks(batch, m, n, k, sms)))
