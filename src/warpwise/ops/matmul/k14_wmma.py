"""The launcher of k14."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm.mma_sync import fills_gpu
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv

WMMA = cuda.load(Path(__file__).with_suffix(".cu"))


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    m, n, k = sizes(a, b)
    depth, sums = (64, "int") if a.dtype == torch.int8 else (32, "float")
    # 128 x 128 a block, 32 x 64 a warp; 64 x 64 where large tiles would not fill the GPU.
    large = fills_gpu(a, cdiv(m, 128) * cdiv(n, 128))
    side, tiles, threads = (128, f"128, 128, {depth}, 32, 64", 256) if large else (64, f"64, 64, {depth}, 32, 32", 128)
    unit = 16 // a.element_size()
    aligned = k % unit == 0 and n % unit == 0 and a.data_ptr() % 16 == 0 and b.data_ptr() % 16 == 0
    types = f"{cuda.ctype(a.dtype)}, {sums}, {cuda.ctype(c.dtype)}"
    kernel = WMMA[f"matmul_wmma<{types}, {tiles}, {str(aligned).lower()}>"]
    kernel[(cdiv(n, side), cdiv(m, side)), threads](a, b, cuda.out(c), m, n, k)
