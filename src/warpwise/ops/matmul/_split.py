"""The launcher of float32 as bfloat16 parts, k21."""

from __future__ import annotations

import torch

from warpwise.ops._common import cdiv, multiprocessors
from warpwise.ops._tiles import shared_bytes
from warpwise.ops.matmul._shared import sizes

# Tiles of C, depth of a slice, warps, slices in flight; the shared memory that slices of both float32 factors take.
LARGE = ("128x128x64_w8_s3", "128x128x32_w8_s3", "128x64x32_w4_s3")
SMALL = ("64x64x32_w4_s3", "64x64x64_w4_s3")
HOPPER_SHARED = 227 * 1024


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Large tiles first where they fill the GPU; its deepest slices take the shared memory of an H100."""
    m, n, _ = sizes(a, b)
    large = LARGE if shared_bytes(a) >= HOPPER_SHARED else LARGE[1:]
    fills = a.is_cuda and cdiv(m, 128) * cdiv(n, 128) >= multiprocessors(a)
    return (*large, *SMALL) if fills else (*SMALL, *large)


def split_bfloat16(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    from warpwise.ops.matmul.k21_split_bfloat16 import matmul_split_bfloat16

    tile, warps, stages = (config or configs(a, b)[0]).split("_")
    block_m, block_n, block_k = map(int, tile.split("x"))
    m, n, k = sizes(a, b)
    matmul_split_bfloat16[(cdiv(m, block_m) * cdiv(n, block_n),)](
        a, b, c, m, n, k, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP=8,
        num_warps=int(warps[1:]), num_stages=int(stages[1:]),
    )  # fmt: skip
