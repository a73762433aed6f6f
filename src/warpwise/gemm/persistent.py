"""The persistent kernels of ``sm90/gemm.cuh`` and ``sm90/gemm_batched.cuh``: configurations, order of tiles, launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from warpwise.gemm.config import GemmConfig, parsed
from warpwise.gemm.time_model import OVERLAPPED, Product
from warpwise.operation import cdiv, sm_count

CONFIGS = parsed(
    "128x256x64_s4_c2x1", "128x256x64_s4_c1x1", "128x192x64_s5_c1x2", "128x192x64_s5_c1x1", "64x256x64_s5_c2x1",
    "128x128x64_s6_c2x1", "128x128x64_s6_c1x1", "64x128x64_s8_c1x1", "64x64x64_s8_c1x1",
)  # fmt: skip
# Widths between those of CONFIGS, which may fill the last wave.
NARROW = tuple(CONFIGS[0]._replace(n=n, cluster=cluster) for n in (248, 240, 224, 208) for cluster in ((2, 1), (1, 1)))
BATCHED = parsed("128x256x64_s3_whole", "128x256x64_s4", "128x128x64_s6", "64x256x64_s5", "64x128x64_s8", "64x64x64_s8")


configs = OVERLAPPED.configs(lambda product: CONFIGS)
narrow_configs = OVERLAPPED.configs(lambda product: (*CONFIGS, *NARROW, *two_widths(CONFIGS[0], product, (256, 248))))
batched_configs = OVERLAPPED.configs(  # whole stores for up to two k-tiles
    lambda product: [config for config in BATCHED if not config.whole or product.k <= 2 * config.k]
)


def two_widths(tile: GemmConfig, product: Product, widths: Sequence[int]) -> list[GemmConfig]:
    """``tile`` with columns of two widths that differ by 8, as many as its waves have room for; none if it fills them.

    ``n`` is the larger width, one of ``widths``; ``tile_rows`` counts the columns.
    """
    rows, whole = tile.tiles(product.m, product.n)
    clusters = max(1, product.sms // tile.blocks)
    columns = cdiv(rows * whole, clusters) * clusters // max(1, rows)
    width = cdiv(cdiv(product.n, max(1, columns)), 8) * 8
    return [tile._replace(n=width, tile_rows=columns)] if columns > whole and width in widths else []


def wide_columns(config: GemmConfig, n: int) -> int:
    """The columns with the larger width. Raises ``ValueError`` unless they and the others have n columns of C."""
    wide = max(0, cdiv(n - (config.n - 8) * config.tile_rows, 8))
    if wide > config.tile_rows:
        raise ValueError(f"config: expected one for {n} columns, got {config.name}")
    return wide


class TileScheduler(NamedTuple):
    """The launch of a persistent kernel: configuration, (blocks, threads, bytes of shared memory), order of tiles."""

    config: GemmConfig
    launch: tuple[int, int, int]
    tiles: tuple[int, int, int]  # rows and columns of cluster tiles, and tile rows of a raster group


def tile_scheduler(a: torch.Tensor, b: torch.Tensor, config: str | None) -> TileScheduler:
    """The launch of the configuration called ``config``, or of the first of ``configs``."""
    found = GemmConfig.parse(config or configs(a, b)[0])
    rows, columns = found.tiles(a.shape[0], b.shape[1])
    columns = found.tile_rows or columns
    clusters = found.clusters(rows * columns, sm_count(a))
    return TileScheduler(found, found.launch(clusters), (rows, columns, found.raster_rows(rows, clusters)))


def batched_grid(config: GemmConfig, batch: int, m: int, n: int, sms: int) -> tuple[int, int, int, int]:
    """Blocks; rows and columns of tiles in a matrix; tile rows of a raster group, two if stores are the bottleneck."""
    rows, columns = cdiv(m, config.m), cdiv(n, config.n)
    blocks = min(batch * rows * columns, sms)
    return blocks, rows, columns, max(1, min(rows, 2 if config.whole else config.raster_rows(rows, blocks)))
