"""The launcher of k01."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm import mma_sync

WMMA = cuda.load(Path(__file__).with_suffix(".cu"))


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    mma_sync.launch_wmma(WMMA, (), 16, c, a, b)
