"""Limits and configurations of the Triton rungs, apart from their kernels since these import Triton."""

from __future__ import annotations

import math

import torch

from warpwise.gemm import boxes
from warpwise.gemm.config import GemmConfig, names, parsed
from warpwise.gemm.limits import requires_tma, tiles_limit
from warpwise.operation import cdiv, sm_count

# 2-byte types: by rows of a group, and narrower ones for few columns
HALVES = parsed("16x64x128_w4_s3", "64x64x64_w4_s4", "128x64x64_w4_s4", "128x128x64_w8_s3")
NARROW = parsed("16x32x128_w4_s3", "128x32x64_w4_s4")
# float32: by few rows, with splits of a long K; by many
FEW, MANY = parsed("32x64x32_w4_s3", "64x64x16_w4_s4")
SPLITS, SPLIT_K, FEW_PER_SM = (1, 2, 4, 8), 128, 8  # least k of a split; tiles
# us of a wave, for each element of its tiles, for each k; bytes per us; us
WAVE, OF_ELEMENT, OF_K, DRAM, SOON = 3.0, 0.00055, 0.0048, 3.3e6, 28.0
MAX_GROUPS = 4095  # and one more for the rows past the last end; a Triton program searches all at once


def padded_groups(groups: int) -> int:
    """The power of two that holds every group and the rows past the last end."""
    return 1 << groups.bit_length()


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
    """Tiles of k01. A program waits for its loads, so that several for each SM, by small tiles and in float32 by
    splits, are faster until the partial sums are as many bytes as the operands."""
    (rows, k), (groups, _, n), sms = a.shape, b.shape, sm_count(a)
    if a.dtype != torch.float32:
        mean = cdiv(rows, max(1, min(groups, rows)))
        fits = next((tile for tile in HALVES if tile.m >= mean), HALVES[2])
        fits = next((tile for tile in NARROW if tile.m == fits.m and n <= max(tile.n, 1024 // tile.m)), fits)
        fills = min(mean, n) > 64 and expected_tiles(128, 128, a, b) >= sms
        return names(dict.fromkeys((HALVES[-1] if fills else fits, *HALVES, *NARROW)))
    few = expected_tiles(FEW.m, FEW.n, a, b) <= FEW_PER_SM * sms
    splits = max(p for p in SPLITS[:3] if p == 1 or p * SPLIT_K <= k) if few else 1
    split = [FEW._replace(splits=p) for p in SPLITS]
    first = split[SPLITS.index(splits)] if few else MANY
    return names(dict.fromkeys((first, *split, MANY)))


def launches_soon(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> bool:
    """True for 2-byte products that k01 computes before the host has made k02's tensor maps, in 18 to 48 us.

    A wave of programs finds its groups, waits for the loads of each k-tile, and stores its tiles. DRAM transfers the
    rows, and the matrices of the groups that random rows are in.
    """
    (rows, k), (groups, _, n) = a.shape, b.shape
    tile = GemmConfig.parse(tiled_configs(a, b, offsets)[0])
    waves = cdiv(expected_tiles(tile.m, tile.n, a, b), 2 * sm_count(a))
    wave = WAVE + tile.m * tile.n * OF_ELEMENT + cdiv(k, tile.k) * tile.k * OF_K
    matrices = groups * (1 - math.exp(-rows / max(1, groups)))
    moved = (matrices * k * n + rows * (k + n)) * a.element_size()
    return 5 + max(waves * wave, moved / DRAM) < SOON


def divides_k(a: torch.Tensor, b: torch.Tensor) -> bool:
    """True for float32 products whose tiles are so few that k01's splits of K are faster than k03's blocks."""
    return a.shape[1] >= 4 * SPLIT_K and 3 * expected_tiles(64, 64, a, b) < 2 * sm_count(a)


def descriptors_limits(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> str | None:
    """A GPU with TMA, and matrices that it can address."""
    if b.shape[0] == 0:
        return "takes 1 group or more, not 0"
    if boxes.transposed(a):
        return (
            f"takes a with contiguous rows, not strides {tuple(a.stride())}: a box begins at any row, but along it at "
            "multiples of 16 bytes"
        )
    return requires_tma(a) or boxes.product_limit(a, b) or tiles_limits(a, b, offsets)


def descriptors_configs(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> tuple[str, ...]:
    """Every tile, in the order that is estimated if all groups have the same number of rows."""
    return boxes.configs(a[: cdiv(a.shape[0], max(1, b.shape[0]))], b)
