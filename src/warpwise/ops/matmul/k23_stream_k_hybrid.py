"""The launcher of k23, and its configurations: the k-tiles of the last, partial wave are divided between all clusters.

A configuration is one of k17, with the number of cluster tiles whose k-tiles are divided between all clusters. Each of
them has an owner, which computes its first ``edge`` k-tiles, and ``splits`` - 1 further splits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.cuda.gpu.semaphores import semaphores
from warpwise.gemm.config import GemmConfig, chosen
from warpwise.gemm.operands import sizes, tma_operand
from warpwise.gemm.persistent import CONFIGS
from warpwise.gemm.time_model import STREAM_K, Product
from warpwise.operation import cdiv, sm_count
from warpwise.ops.matmul import k17_overlapped_epilogue as k17

STREAM_K_HYBRID = cuda.load(Path(__file__).with_suffix(".cu"))

STORE, ADD = 0.14, 0.08  # clocks to store an element of partial sums, and to add it to the owner's sum
MOST_SPLITS, MOST_CONFIGS = 16, 20


def fits(config: GemmConfig, tiles: int, k_tiles: int, clusters: int) -> bool:
    """True if ``clusters`` clusters can compute ``tiles`` tiles of ``k_tiles`` k-tiles each by this configuration."""
    shared, splits = config.stream_k_tiles, config.splits
    enough_clusters = splits == 2 or splits * shared <= clusters
    valid_split = splits > 1 and 0 < shared < clusters and 0 < config.edge <= k_tiles - splits + 1
    return shared <= tiles and valid_split and enough_clusters


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    m, n, k = sizes(a, b)
    sms = sm_count(a)
    config = config or configs(a, b)[0]
    found = parsed(config)
    if not found.stream_k_tiles:
        return k17.launch(c, a, b, config)
    k_tiles, clusters = cdiv(k, found.k), max(1, sms // found.blocks)
    rows, columns = found.tiles(m, n)
    if not fits(found, rows * columns, k_tiles, clusters):
        raise ValueError(
            f"matmul: expected a configuration for shapes {tuple(a.shape)} and {tuple(b.shape)}, got {config}"
        )
    (read_a, a_mn_major), (read_b, b_k_major) = tma_operand(a), tma_operand(b)
    grid = found.launch(clusters)
    sums = c.new_empty(grid[0] * found.m * found.n, dtype=torch.float32)
    flags = semaphores(a, grid[0] * found.warpgroups)
    maps = [cuda.tensor_map(matrix, (64, 64)) for matrix in (read_a, read_b, c)]
    group = found.group(rows, clusters)
    kernel = STREAM_K_HYBRID[f"matmul_stream_k_hybrid<{found.parameters(a.dtype, a_mn_major, not b_k_major)}>"]
    kernel[grid](*maps, sums, flags, k_tiles, rows, columns, group, found.stream_k_tiles, found.splits, found.edge)


def candidates(product: Product) -> Iterator[GemmConfig]:
    """The configurations of k17, with whole tiles only, and those with stream-K."""
    yield from CONFIGS
    for config in reversed(CONFIGS):
        yield from stream_k_configs(config, product.m, product.n, product.k, product.sms)


configs = STREAM_K.configs(candidates, MOST_CONFIGS)


def stream_k_configs(config: GemmConfig, m: int, n: int, k: int, sms: int) -> Iterator[GemmConfig]:
    """The configurations that divide the last, partial wave, by number of splits."""
    tiles, k_tiles, clusters = math.prod(config.tiles(m, n)), cdiv(k, config.k), max(1, sms // config.blocks)
    left = tiles % clusters
    if not left:
        return
    scale = config.m * config.n / k_tile_clocks(config)
    for splits in range(2, MOST_SPLITS + 1):
        if (splits > 2 and splits * left > clusters) or splits > k_tiles:
            return
        contributors = splits - 1
        each = cdiv(left, min(clusters - left, left * contributors))  # tiles that a contributor computes splits of
        # The owner and the contributors finish together:
        # edge + contributors * adding = each * ((k_tiles - edge) / contributors + storing).
        edge = round(
            (each * (k_tiles / contributors + STORE * scale) - contributors * ADD * scale) / (1 + each / contributors)
        )
        edge = max(1, min(edge, k_tiles - contributors))
        yield config._replace(stream_k_tiles=left, splits=splits, edge=edge)


def parsed(config: str) -> GemmConfig:
    """The configuration of that name: one of k17 with or without stream-K. Raises ``ValueError`` for another."""
    found = GemmConfig.parse(config)
    chosen("matmul", found._replace(stream_k_tiles=0, splits=1, edge=0).name, CONFIGS)
    return found


def k_tile_clocks(config: GemmConfig) -> float:
    """Clocks of a k-tile: wgmma at 2048 multiply-adds, or loads at 44 bytes, 38 with multicast."""
    down, across = config.cluster
    loads = (config.m / across + config.n / down) * 2 * config.k / (38 if config.blocks > 1 else 44)
    return max(config.m * config.n * config.k / 2048, loads)
