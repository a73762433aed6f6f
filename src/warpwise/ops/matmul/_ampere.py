"""Launchers of the kernels that use the tensor cores as Ampere does: k14 (wmma) and k15 (mma.sync)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm import mma_sync as gemm
from warpwise.gemm.mma_sync import MmaConfig, fills_gpu
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv

HERE = Path(__file__).parent
WMMA = cuda.load(HERE / "k14_wmma.cu")
MMA_SYNC = cuda.load(HERE / "k15_mma_sync.cu")

CONFIGS = (
    MmaConfig(128, 256, 64, 64, 128, 3, 1),
    MmaConfig(128, 256, 64, 64, 128, 4, 1),
    MmaConfig(256, 128, 64, 64, 128, 4, 1),
    MmaConfig(128, 128, 64, 64, 128, 3, 2),
    MmaConfig(128, 128, 64, 64, 64, 5, 2),
    MmaConfig(64, 128, 32, 64, 128, 3, 2),
    MmaConfig(64, 64, 32, 32, 128, 3, 2),
    MmaConfig(64, 64, 32, 32, 64, 4, 4),
)


def wmma(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
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


def mma_sync_configs(a: torch.Tensor, b: torch.Tensor) -> Sequence[str]:
    return gemm.names(CONFIGS, a, b)


def mma_sync(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, config: str | None = None) -> None:
    gemm.launch(MMA_SYNC, (cuda.ctype(a.dtype), cuda.ctype(c.dtype)), CONFIGS, True, c, a, b, config)
