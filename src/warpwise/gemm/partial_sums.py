"""The launch that adds partial sums of several blocks, in a fixed order."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv

PARTIAL_SUMS = cuda.load(Path(cuda.__file__).parent / "include/warpwise/core/partial_sums.cuh")


def add(partials: torch.Tensor, sums: torch.Tensor) -> None:
    """``sums``, contiguous, = ``partials``, float32 and contiguous, summed over the first dimension."""
    kernel = PARTIAL_SUMS[f"warpwise::reduce_partials<{cuda.ctype(sums.dtype)}>"]
    kernel[cdiv(sums.numel(), 128), 256](partials, cuda.out(sums), sums.numel(), partials.shape[0])
