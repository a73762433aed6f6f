"""Launchers of the kernels in Triton."""

from __future__ import annotations

import torch

from warpwise.gemm.limits import shared_bytes
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv, sm_count


def triton_tiled(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    from warpwise.ops.matmul.k10_triton_tiled import matmul_tiled

    m, n, k = sizes(a, b)
    if a.dtype == torch.float32:
        block_m, block_n, block_k, warps, stages = 64, 64, 32, 4, 3
    elif cdiv(m, 128) * cdiv(n, 256) >= sm_count(a) and shared_bytes(a) >= 3 * 2 * 64 * (128 + 256):
        block_m, block_n, block_k, warps, stages = 128, 256, 64, 8, 3
    else:
        block_m, block_n, block_k, warps, stages = 64, 64, 64, 4, 4
    matmul_tiled[(cdiv(m, block_m) * cdiv(n, block_n),)](
        a, b, c, m, n, k, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP=8, num_warps=warps, num_stages=stages
    )
