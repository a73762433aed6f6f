"""The launcher of k29, its limits and configurations."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import torch

from warpwise import cuda
from warpwise.gemm.limits import grid_of_tiles, is_hopper, requires_ampere
from warpwise.gemm.mma_sync import operand
from warpwise.gemm.operands import flags, sizes
from warpwise.operation import cdiv, sm_count

CLUSTER_SPLIT_K = cuda.load(Path(__file__).with_suffix(".cu"))

FORM = re.compile(r"(\d+)x(\d+)x(\d+)_w(\d+)x(\d+)_s(\d+)_p(\d+)")
SPLITS = (1, 2, 4, 8, 16)  # blocks of a cluster: 16 on Hopper, 8 are portable
MIN_K = 32  # of a split


class Tile(NamedTuple):
    """A block's tile with its k-tile, a warp's tile, and the pipeline's stages."""

    m: int
    n: int
    k: int
    warp_m: int
    warp_n: int
    stages: int

    def name(self, splits: int) -> str:
        return f"{self.m}x{self.n}x{self.k}_w{self.warp_m}x{self.warp_n}_s{self.stages}_p{splits}"

    def threads(self) -> int:
        return self.m // self.warp_m * (self.n // self.warp_n) * 32

    def shared(self, size: int) -> int:
        """Bytes of shared memory: the stages, or the sums, which take their place."""
        pad = 4 if size == 4 else 0
        return max(self.stages * (self.m + self.n + 2 * pad) * self.k * size, self.m * (self.n + 8) * 4)


SIMT = (
    Tile(32, 32, 32, 16, 32, 4),
    Tile(32, 32, 32, 16, 32, 8),
    Tile(32, 64, 32, 16, 32, 4),
    Tile(32, 64, 32, 16, 32, 8),
    Tile(64, 64, 32, 32, 32, 4),
    Tile(16, 128, 32, 16, 32, 4),
    Tile(128, 16, 32, 32, 16, 4),
    Tile(128, 64, 16, 32, 32, 4),
    Tile(128, 128, 16, 32, 64, 4),
)
MMA = (
    Tile(64, 64, 64, 32, 32, 4),
    Tile(64, 64, 64, 32, 32, 8),
    Tile(64, 64, 64, 16, 32, 4),
    Tile(128, 64, 64, 32, 32, 4),
    Tile(64, 128, 64, 32, 32, 4),
    Tile(128, 128, 64, 64, 32, 3),
)


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, config: str | None = None) -> None:
    m, n, k = sizes(a, b)
    found = FORM.fullmatch(config or configs(a, b)[0])
    if not found:
        raise ValueError(f"matmul: expected a configuration of the form {FORM.pattern}, got {config!r}")
    *numbers, splits = map(int, found.groups())
    tile = Tile(*numbers)
    left, right = operand(a, 1), operand(b, 0)
    aligned = n % 4 == 0 and c.data_ptr() % (4 * c.element_size()) == 0
    template = [cuda.ctype(a.dtype), *map(str, tile), flags(left.k_major, right.k_major)]
    words = [4 if a.dtype == torch.float32 and each.k_major else each.word for each in (left, right)]
    template += [*map(str, words), flags(aligned)]
    name = f"matmul_cluster_split_k<{', '.join(template)}, {splits}>" if splits > 1 else ""
    kernel = CLUSTER_SPLIT_K[name or f"matmul_tile<{', '.join(template)}>"]
    tiles_m = cdiv(m, tile.m)
    kernel[tiles_m * cdiv(n, tile.n) * splits, tile.threads(), tile.shared(a.element_size())](
        cuda.strided(left.matrix), left.stride, cuda.strided(right.matrix), right.stride, cuda.out(c), m, n, k, tiles_m
    )


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """Compute capability 8.0, and a grid of tiles."""
    return requires_ampere(a) or grid_of_tiles(a, b)


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Each tile with the splits of K that give every SM half a block to four; the default first."""
    m, n, k = sizes(a, b)
    tiles = SIMT if a.dtype == torch.float32 else MMA
    if a.is_cpu:
        return tuple(tile.name(1) for tile in tiles)
    sms = sm_count(a)
    splits = [split for split in SPLITS if split == 1 or (split * MIN_K <= k and (a.is_meta or is_hopper(a)))]
    names = []
    for tile in tiles:
        blocks = cdiv(m, tile.m) * cdiv(n, tile.n)
        padded = tile.m >= 2 * max(m, tiles[0].m) or tile.n >= 2 * max(n, tiles[0].n)
        if not padded and blocks <= 8 * sms:
            wanted = [split for split in reversed(splits) if sms / 2 <= blocks * split <= 4 * sms]
            names += [tile.name(split) for split in wanted or [splits[-1] if blocks < sms else 1]]
    return tuple(names) or (tiles[-1].name(1),)
