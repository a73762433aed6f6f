"""Limits and configurations of the Triton rungs, apart from their kernels since these import Triton."""

from __future__ import annotations

import torch

from warpwise.gemm import boxes
from warpwise.gemm.config import names, parsed
from warpwise.gemm.limits import requires_tma, tiles_limit
from warpwise.operation import cdiv, sm_count

HALVES = parsed(
    "128x128x64_w8_s3", "128x64x64_w4_s4", "128x32x64_w4_s4", "128x16x64_w4_s4", "64x128x64_w4_s4", "64x64x64_w4_s4",
    "64x32x64_w4_s4", "32x64x64_w4_s4", "16x64x128_w4_s3", "16x32x128_w4_s3",
)  # fmt: skip
# float32: by few rows, with splits of a long K; by many
FEW, MANY = parsed("32x64x32_w4_s3", "64x64x16_w4_s4")
SPLITS, SPLIT_K, FEW_PER_SM = (1, 2, 4, 8), 128, 8  # least k of a split; tiles
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


def tiled_configs(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> tuple[str, ...]:
    """Tiles of k01. A program waits for its loads, so that several for each SM, by small tiles and splits, are faster
    until the partial sums are as many bytes as the operands."""
    if a.dtype != torch.float32:
        return names([*HALVES, *(tile._replace(splits=p) for tile in HALVES[1:] for p in SPLITS[1:])])
    (rows, k), (groups, _, n) = a.shape, b.shape
    tiles = (cdiv(rows, FEW.m) + min(groups, rows) // 2) * cdiv(n, FEW.n)
    few = tiles <= FEW_PER_SM * sm_count(a)
    splits = max(p for p in SPLITS[:3] if p == 1 or p * SPLIT_K <= k) if few else 1
    split = [FEW._replace(splits=p) for p in SPLITS]
    first = split[SPLITS.index(splits)] if few else MANY
    return names(dict.fromkeys((first, *split, MANY)))


def launches_soon(a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor) -> bool:
    """True for 2-byte products that k01 computes before the host has made k02's tensor maps, in 18 to 35 us."""
    (rows, k), (groups, _, n) = a.shape, b.shape
    tile, sms = HALVES[0], sm_count(a)
    tiles, k_tiles = (cdiv(rows, tile.m) + min(groups, rows)) * cdiv(n, tile.n), cdiv(k, tile.k)
    of_k_tile = 0.4 if tiles <= sms else 0.9
    return 4 + cdiv(tiles, 2 * sms) * (5 + k_tiles * of_k_tile) < 20


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
