"""The launcher of k02, and its configurations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm import mma_sync
from warpwise.gemm.mma_sync import MmaConfig

MMA_SYNC = cuda.load(Path(__file__).with_suffix(".cu"))

CONFIGS = (
    MmaConfig(256, 128, 64, 64, 128, 4, 1),
    MmaConfig(128, 256, 64, 64, 128, 4, 1),
    MmaConfig(128, 128, 64, 64, 128, 3, 2),
    MmaConfig(64, 128, 32, 64, 128, 3, 2),
    MmaConfig(64, 64, 32, 32, 64, 4, 4),
)


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, config: str | None = None) -> None:
    mma_sync.launch(MMA_SYNC, (), CONFIGS, False, c, a, b, config)


def configs(a: torch.Tensor, b: torch.Tensor) -> Sequence[str]:
    return mma_sync.names(CONFIGS, a, b)
