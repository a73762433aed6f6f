"""The launcher of k21, float32 by bf16x3."""

from __future__ import annotations

import torch

from warpwise.gemm.limits import HOPPER_SHARED, shared_bytes
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv, sm_count

# Tiles of C, the k of a stage, warps, stages.
LARGE = ("128x128x64_w8_s3", "128x128x32_w8_s3", "128x64x32_w4_s3")
SMALL = ("64x64x32_w4_s3", "64x64x64_w4_s3")


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Large tiles first where they fill the GPU; the deepest stages need the shared memory of Hopper."""
    m, n, _ = sizes(a, b)
    large = LARGE if shared_bytes(a) >= HOPPER_SHARED else LARGE[1:]
    fills = not a.is_cpu and cdiv(m, 128) * cdiv(n, 128) >= sm_count(a)
    return (*large, *SMALL) if fills else (*SMALL, *large)


def bf16x3(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    from warpwise.ops.matmul.k21_bf16x3 import matmul_bf16x3

    tile, warps, stages = (config or configs(a, b)[0]).split("_")
    block_m, block_n, block_k = map(int, tile.split("x"))
    m, n, k = sizes(a, b)
    matmul_bf16x3[(cdiv(m, block_m) * cdiv(n, block_n),)](
        a,
        b,
        c,
        m,
        n,
        k,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        GROUP=8,
        num_warps=int(warps[1:]),
        num_stages=int(stages[1:]),
    )
