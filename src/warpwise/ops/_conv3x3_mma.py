"""The bands of sm80/conv3x3_mma.cuh, 3 x 3 convolutions on tensor cores, and their shared memory."""

from __future__ import annotations

from typing import NamedTuple

import torch

from warpwise.device.limits import requires_ampere
from warpwise.operation import cdiv

PLANES, QUADS = 16, 4  # kMmaPlanes, kMmaQuads
FEW_BATCH_PIXELS = 50_000  # pixels of a batch up to which k06 of conv_block is not faster than direct sums
MOST_PIXELS = 224  # pixels of a band: 28 n-tiles, seven for each of four warps


def filter_bytes(tiles: int) -> int:
    """Bytes of MmaFilters of ``tiles`` tiles of 16 rows."""
    return 4 * 9 * (2 * tiles * 128 + 4)


class Band(NamedTuple):
    """``rows`` rows of an image, in ``bands`` bands; the bytes of a quad of planes, and of the offsets of pixels."""

    rows: int
    bands: int
    quad: int
    offsets: int


def band(h: int, w: int, most: int = MOST_PIXELS) -> Band:
    """Bands of about equal size, of up to ``most`` pixels, of an image (h, w) of at most MOST_PIXELS columns."""
    bands = cdiv(h, max(1, most // w))
    rows = cdiv(h, bands)
    floats = 4 * (rows + 2) * (w + 2) + 4
    return Band(rows, cdiv(h, rows), 4 * (floats + (40 - floats % 32) % 32), 4 * (rows + 2) * w)


def mma_limits(input: torch.Tensor) -> str | None:
    """The reason why a band does not take ``input`` (N, C, H, W), or None."""
    if input.shape[3] > MOST_PIXELS:
        return f"takes up to {MOST_PIXELS} columns, not {input.shape[3]}"
    return requires_ampere(input)


def fills_tiles(channels: int, filters: int, rows: int = 2 * PLANES, most: float = 1.5) -> bool:
    """True where tiles of 16 channels and ``rows`` filters have little padding: up to ``most`` times the products."""
    padded = PLANES * cdiv(channels, PLANES) * rows * cdiv(filters, rows)
    return padded <= most * channels * filters
