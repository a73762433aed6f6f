"""The persistent kernels of ``sm90/gemm.cuh`` and ``sm90/gemm_batched.cuh``: configurations, order of tiles, launch."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch

from warpwise.gemm.config import GemmConfig, chosen, names, parsed
from warpwise.gemm.estimate import HALF, ordered
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv, sm_count

CONFIGS = parsed(
    "128x256x64_s4_c2x1", "128x256x64_s4_c1x1", "128x192x64_s5_c1x2", "128x192x64_s5_c1x1", "64x256x64_s5_c2x1",
    "128x128x64_s6_c2x1", "128x128x64_s6_c1x1", "64x128x64_s8_c1x1", "64x64x64_s8_c1x1",
)  # fmt: skip
BATCHED = parsed("128x256x64_s3_whole", "128x256x64_s4", "128x128x64_s6", "64x256x64_s5", "64x128x64_s8", "64x64x64_s8")


@functools.lru_cache(maxsize=1024)
def ranked(m: int, n: int, k: int, sms: int) -> tuple[str, ...]:
    """The names of ``CONFIGS``."""
    return names(ordered(CONFIGS, HALF, m, n, k, sms))


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """``ranked`` for a (M, K) and b (K, N) on their GPU."""
    return ranked(*sizes(a, b), sm_count(a))


class TileScheduler(NamedTuple):
    """The launch of a persistent kernel: configuration, (blocks, threads, shared memory), order of tiles."""

    config: GemmConfig
    launch: tuple[int, int, int]
    tiles: tuple[int, int, int]  # rows and columns of cluster tiles, and rows that are rasterised together


def tile_scheduler(a: torch.Tensor, b: torch.Tensor, config: str | None) -> TileScheduler:
    """The launch of the configuration called ``config``, or of the first of ``configs``."""
    found = chosen("matmul", config or configs(a, b)[0], CONFIGS)
    rows, columns = found.tiles(a.shape[0], b.shape[1])
    clusters = found.clusters(rows * columns, sm_count(a))
    return TileScheduler(found, found.launch(clusters), (rows, columns, found.group(rows, clusters)))


@functools.lru_cache(maxsize=1024)
def batched_configs(batch: int, m: int, n: int, k: int, sms: int) -> tuple[str, ...]:
    """The names of ``BATCHED``; whole stores for up to two k-tiles."""
    found = [config for config in BATCHED if not config.whole or k <= 2 * config.k]
    return names(ordered(found, HALF, m, n, k, sms, batch))


def batched_grid(config: GemmConfig, batch: int, m: int, n: int, sms: int) -> tuple[int, int, int, int]:
    """Blocks; rows and columns of tiles in a matrix; rows of tiles that are rasterised together, two where the store is
    the bottleneck."""
    rows, columns = cdiv(m, config.m), cdiv(n, config.n)
    blocks = min(batch * rows * columns, sms)
    return blocks, rows, columns, max(1, min(rows, 2 if config.whole else config.group(rows, blocks)))
