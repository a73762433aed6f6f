"""Limits and tiles of the rungs, apart from k01's kernel since that imports Triton."""

from __future__ import annotations

import torch

from warpwise.gemm.config import names, parsed
from warpwise.gemm.limits import tiles_limit
from warpwise.operation import cdiv, sm_count

# 2-byte types: by rows of a group
HALVES = parsed("16x64x128_w4_s3", "64x64x64_w4_s4", "128x64x64_w4_s4", "128x128x64_w8_s3")
# float32: by few rows, with splits of a long K; by many
FEW, MANY = parsed("32x64x32_w4_s3", "64x64x16_w4_s4")
SPLITS = (1, 2, 4, 8)
SPLIT_K = 128  # least k of a split
FEW_PER_SM = 8  # tiles per SM, up to which tiles are FEW and K is divided
MAX_GROUPS = 4095  # and one more for the rows past the last end; a Triton program searches all at once


def tiles_limits(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> str | None:
    """A number of groups that one program can search, and a grid of tiles."""
    if b.shape[0] > MAX_GROUPS:
        return f"takes up to {MAX_GROUPS} groups, not {b.shape[0]}"
    tiles = (cdiv(a.shape[0], 64) + b.shape[0] + 1) * cdiv(b.shape[2], 64)
    return tiles_limit(tiles, rows=a.shape[0], groups=b.shape[0], n=b.shape[2], k=a.shape[1])


def expected_tiles(m: int, n: int, a: torch.Tensor, b: torch.Tensor) -> int:
    """Tiles of m x n, if half a tile row of each group is empty."""
    rows, (groups, _, columns) = a.shape[0], b.shape
    return (cdiv(rows, m) + min(groups, rows) // 2) * cdiv(columns, n)


def tiled_configs(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> tuple[str, ...]:
    """Tiles of k01. A program waits for its loads, so several programs per SM are faster. They come from small tiles
    and, in float32, from splits of K, until the partial sums have as many bytes as the operands."""
    (rows, k), (groups, _, n), sms = a.shape, b.shape, sm_count(a)
    if a.dtype != torch.float32:
        mean = cdiv(rows, max(1, min(groups, rows)))
        fits = next((tile for tile in HALVES if tile.m >= mean), HALVES[2])
        fills = min(mean, n) > 64 and expected_tiles(128, 128, a, b) >= sms
        return names(dict.fromkeys((HALVES[-1] if fills else fits, *HALVES)))
    few = expected_tiles(FEW.m, FEW.n, a, b) <= FEW_PER_SM * sms
    splits = max(p for p in SPLITS[:3] if p == 1 or p * SPLIT_K <= k) if few else 1
    split = [FEW._replace(splits=p) for p in SPLITS]
    first = split[SPLITS.index(splits)] if few else MANY
    return names(dict.fromkeys((first, *split, MANY)))


def divides_k(a: torch.Tensor, b: torch.Tensor) -> bool:
    """True for float32 products whose tiles are so few that k01's splits of K are faster than k03's blocks."""
    return a.shape[1] >= 4 * SPLIT_K and 3 * expected_tiles(64, 64, a, b) < 2 * sm_count(a)
