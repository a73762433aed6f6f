"""Limits and configurations of the Triton rungs, apart from their kernels since these import Triton."""

from __future__ import annotations

import torch

from warpwise.device.limits import HOPPER_SHARED, shared_bytes
from warpwise.gemm.config import GemmConfig, names, parsed
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv, sm_count

BF16X3 = parsed("128x128x64_w8_s3", "128x128x32_w8_s3", "128x64x32_w4_s3", "64x64x32_w4_s3", "64x64x64_w4_s3")


def split_k_configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Tiles by dtype and rows of A; splits of K with about two programs per SM, and half and twice as many."""
    m, n, k = sizes(a, b)
    block_m = next((size for size in (16, 32, 64) if size >= m), 64)
    found = []
    for block_n, block_k, warps, stages in (
        ((64, 128, 4, 4), (128, 64, 4, 4), (128, 64, 4, 3))
        if a.dtype != torch.float32
        else ((64, 32, 4, 4), (128, 32, 4, 3))
    ):
        tiles, k_tiles = cdiv(m, block_m) * cdiv(n, block_n), cdiv(k, block_k)
        fill = cdiv(2 * sm_count(a), max(1, tiles))
        for splits in dict.fromkeys((fill, cdiv(fill, 2), 2 * fill, 1)):
            splits = max(1, min(splits, k_tiles // 2))
            found.append(GemmConfig(block_m, block_n, block_k, stages, (warps,), splits=splits))
    return names(dict.fromkeys(found))


def bf16x3_configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Small tiles first if large ones do not fill the GPU. The most stages need the shared memory of Hopper."""
    m, n, _ = sizes(a, b)
    fit = BF16X3 if shared_bytes(a) >= HOPPER_SHARED else BF16X3[1:]
    if not a.is_cpu and cdiv(m, 128) * cdiv(n, 128) >= sm_count(a):
        return names(fit)
    return names(sorted(fit, key=lambda tile: tile.m > 64))
