"""The launch of the convolution from three bfloat16 parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.operation import cdiv, sm_count
from warpwise.ops._conv3x3_mma import PLANES, band, mma_limits

KERNELS = cuda.load(Path(__file__).with_suffix(".cu"))
FILTERS, POSITION, FILTER_BYTES = 32, 6 * PLANES + 16, 9 * 2 * 3 * 512  # kMmaFilters; bytes of BfImage, of Filters


def limits(input: torch.Tensor, *rest: Any) -> str | None:
    if input.shape[1] > PLANES:
        return f"takes up to {PLANES} input channels, not {input.shape[1]}"
    return mma_limits(input)


def convolve(input: torch.Tensor, weight: torch.Tensor, convolved: torch.Tensor) -> torch.Tensor:
    """``convolved`` = the convolution of N > 0 images; returns the partial statistics (K, parts, 3)."""
    n, c, h, w = input.shape
    k = weight.shape[0]
    bands, sms = band(h, w), sm_count(input)
    units = bands.bands * cdiv(k, FILTERS)  # blocks that take an image
    threads, blocks = (512, sms) if n * units <= sms else (256, 2 * sms)
    splits = max(1, min(n, blocks // units))
    partials = input.new_empty((k, splits * bands.bands, 3))
    shared = FILTER_BYTES + (bands.rows + 2) * (w + 2) * POSITION + bands.offsets
    kernel = KERNELS[f"convolution_with_statistics<{threads}>"]
    kernel[splits * units, threads, shared](
        *(input, weight, cuda.out(convolved), cuda.out(partials), partials.shape[1], n, c, h, w, k),
        *(bands.rows, splits),
    )
    return partials
