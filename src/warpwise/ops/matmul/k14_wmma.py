"""The launcher of k14."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm import mma_sync

WMMA = cuda.load(Path(__file__).with_suffix(".cu"))


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    depth, sums = (64, "int") if a.dtype == torch.int8 else (32, "float")
    mma_sync.launch_wmma(WMMA, (cuda.ctype(a.dtype), sums, cuda.ctype(c.dtype)), depth, c, a, b)
