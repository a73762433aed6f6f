"""The launcher of k09."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv, sm_count
from warpwise.ops.matmul._shared import vectorisable

WARP_TILE = cuda.load(Path(__file__).with_suffix(".cu"))


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    m, n, k = sizes(a, b)
    # 128 x 128 a block, 32 x 64 a warp, 8 x 8 a thread; a quarter of that where the large tiles would not fill the GPU.
    large = m > 64 and n > 64 and cdiv(m, 128) * cdiv(n, 128) >= sm_count(a)
    side, tiles, threads = (128, "128, 128, 16, 32, 64", 256) if large else (64, "64, 64, 16, 32, 32", 128)
    kernel = WARP_TILE[f"matmul_warp_tile<{cuda.ctype(a.dtype)}, {tiles}, {vectorisable(c, a, b)}>"]
    kernel[(cdiv(n, side), cdiv(m, side)), threads](a, b, cuda.out(c), m, n, k)
