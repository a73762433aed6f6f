"""The launcher of k01."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm import mma_sync
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv

WMMA = cuda.load(Path(__file__).with_suffix(".cu"))


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    m, n, k = sizes(a, b)
    # 128 x 128 a block, 32 x 64 a warp; 64 x 64 where large tiles would not fill the GPU.
    large = mma_sync.fills_gpu(a, cdiv(m, 128) * cdiv(n, 128))
    side, tiles, threads = (128, "128, 128, 16, 32, 64", 256) if large else (64, "64, 64, 16, 32, 32", 128)
    aligned = k % 4 == 0 and n % 4 == 0 and a.data_ptr() % 16 == 0 and b.data_ptr() % 16 == 0
    kernel = WMMA[f"matmul_wmma<{tiles}, {str(aligned).lower()}>"]
    kernel[(cdiv(n, side), cdiv(m, side)), threads](a, b, cuda.out(c), m, n, k)
