"""The launcher of k29, its limits and configurations."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm.config import GemmConfig, parsed
from warpwise.gemm.limits import grid_of_tiles, is_hopper, requires_ampere
from warpwise.gemm.mma_sync import operand
from warpwise.gemm.operands import flags, sizes
from warpwise.operation import cdiv, sm_count

CLUSTER_SPLIT_K = cuda.load(Path(__file__).with_suffix(".cu"))

SPLITS = (1, 2, 4, 8, 16)  # blocks of a cluster: 16 on Hopper, 8 are portable
MIN_K = 32  # of a split
SIMT = parsed(
    "32x32x32_w16x32_s4", "32x32x32_w16x32_s8", "32x64x32_w16x32_s4", "32x64x32_w16x32_s8", "64x64x32_w32x32_s4",
    "16x128x32_w16x32_s4", "128x16x32_w32x16_s4", "128x64x16_w32x32_s4", "128x128x16_w32x64_s4",
)  # fmt: skip
MMA = parsed(
    "64x64x64_w32x32_s4", "64x64x64_w32x32_s8", "64x64x64_w16x32_s4", "128x64x64_w32x32_s4", "64x128x64_w32x32_s4",
    "128x128x64_w64x32_s3",
)  # fmt: skip


def shared(tile: GemmConfig, size: int) -> int:
    """Bytes of shared memory: the stages, or the sums, which take their place."""
    pad = 8 if size == 4 else 0  # of the lines of both operands
    return max(tile.ring_bytes(size, alignment=0, barriers=0, padding=pad), tile.m * (tile.n + 8) * 4)


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, config: str | None = None) -> None:
    m, n, k = sizes(a, b)
    tile = GemmConfig.parse(config or configs(a, b)[0])
    left, right = operand(a, 1), operand(b, 0)
    aligned = n % 4 == 0 and c.data_ptr() % (4 * c.element_size()) == 0
    words = [4 if a.dtype == torch.float32 and each.k_major else each.word for each in (left, right)]
    numbers = (tile.m, tile.n, tile.k, *tile.warps, tile.stages)
    template = [cuda.ctype(a.dtype), *map(str, numbers), flags(left.k_major, right.k_major), *map(str, words)]
    splits = tile.cluster_splits
    name = "matmul_cluster_split_k" if splits > 1 else "matmul_tile"
    more = f", {splits}" if splits > 1 else ""
    kernel = CLUSTER_SPLIT_K[f"{name}<{', '.join(template)}, {flags(aligned)}{more}>"]
    tiles_m, tiles_n = tile.tiles(m, n)
    threads = 32 * (tile.m // tile.warps[0]) * (tile.n // tile.warps[1])
    kernel[tiles_m * tiles_n * splits, threads, shared(tile, a.element_size())](
        *(cuda.strided(left.matrix), left.stride, cuda.strided(right.matrix), right.stride),
        *(cuda.out(c), m, n, k, tiles_m),
    )


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """Compute capability 8.0, and a grid of tiles."""
    return requires_ampere(a) or grid_of_tiles(a, b)


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Each tile with the splits of K that give every SM half a block to four; the default first."""
    m, n, k = sizes(a, b)
    tiles = SIMT if a.dtype == torch.float32 else MMA
    if a.is_cpu:
        return tuple(tile.name for tile in tiles)
    sms = sm_count(a)
    splits = [split for split in SPLITS if split == 1 or (split * MIN_K <= k and (a.is_meta or is_hopper(a)))]
    names = []
    for tile in tiles:
        blocks = cdiv(m, tile.m) * cdiv(n, tile.n)
        padded = tile.m >= 2 * max(m, tiles[0].m) or tile.n >= 2 * max(n, tiles[0].n)
        if not padded and blocks <= 8 * sms:
            wanted = [split for split in reversed(splits) if sms / 2 <= blocks * split <= 4 * sms]
            chosen = wanted or [splits[-1] if blocks < sms else 1]
            names += [tile._replace(cluster_splits=split).name for split in chosen]
    return tuple(names) or (tiles[-1].name,)
