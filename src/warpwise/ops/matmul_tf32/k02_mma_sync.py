"""The launcher of k02, and its configurations."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm import mma_sync
from warpwise.gemm.config import names, parsed

MMA_SYNC = cuda.load(Path(__file__).with_suffix(".cu"))
CONFIGS = parsed(  # k in bytes
    "256x128x128_w64x64_s4", "128x256x128_w64x64_s4", "128x128x128_w64x64_s3", "64x128x128_w32x64_s3",
    "64x64x64_w32x32_s4",
)  # fmt: skip


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, config: str | None = None) -> None:
    mma_sync.launch(MMA_SYNC, (), CONFIGS, False, c, a, b, config)


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    return names(mma_sync.fitting(CONFIGS, a, b))
