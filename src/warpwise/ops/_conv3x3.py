"""Tiles of core/conv3x3.cuh and conv3x3_weights.cuh, direct 3 x 3 convolutions, and their shared memory."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import torch

from warpwise import cuda
from warpwise.cuda.gpu.branch import gradients_aside
from warpwise.operation import cdiv

THREADS = 256  # kConvThreads
CHANNEL_BYTES = 20  # the largest Channel of a source
MOST_FLOATS = 13_500  # floats in the planes of a tile of dw, so that two blocks are resident on an SM
MOST_SPLITS = 32  # of the filters of dx: the warps of conv_add_parts
MOST_ROW = 2048  # columns of an image of up to four channels, because its rows are not divided


class Tile(NamedTuple):
    """``rows`` (even) x 4 ``strips`` pixels, in ``bands`` x ``sides`` of an image; bytes of shared memory."""

    rows: int
    strips: int
    bands: int
    sides: int
    shared: int


def row_limits(input: torch.Tensor) -> str | None:
    """The reason why the tiles of dw do not take ``input`` (N, C, H, W), or None."""
    if input.shape[1] <= 4 and input.shape[3] > MOST_ROW:
        return f"takes up to {MOST_ROW} columns of up to 4 channels, not {input.shape[3]}"
    return None


def plane(floats: int) -> int:
    """conv_plane: the distance of planes in shared memory, 4 mod 32."""
    return floats + (36 - floats % 32) % 32


def _even_bands(h: int, most: int) -> int:
    """Rows of a band, even and at most ``most`` (2 or more), so that bands of h rows are about equal."""
    bands = cdiv(h, max(2, most // 2 * 2))
    return 2 * cdiv(cdiv(h, bands), 2)


def groups(planes: int) -> int:
    """Groups of four planes of a tile of ConvTile for an output of ``planes``."""
    return 1 if planes <= 4 else 4


def each(planes: int) -> int:
    """Planes of a thread of ConvTile: 8 where a tile of 32 planes is not much larger than the output."""
    return 8 if planes > 16 and planes % 32 not in range(1, 17) else 4


def output_tile(planes: int, h: int, w: int, each: int = 4) -> Tile:
    """A tile of ConvTile, whose output has ``planes``; shared memory with filters and Channels."""
    four = groups(planes)
    chunk = 8 if four == 1 else 16
    total = cdiv(w, 4)
    strips = cdiv(total, cdiv(total, 8))
    rows = _even_bands(h, THREADS // four // strips)
    floats = chunk * plane((rows + 2) * 4 * ((strips + 1) | 1)) + chunk * 9 * (each * four + 4)
    floats = max(floats, each * four * (4 * cdiv(min(h, rows) * min(w, 4 * strips), 4)))  # the output
    return Tile(rows, strips, cdiv(h, rows), cdiv(w, 4 * strips), 4 * floats + chunk * CHANNEL_BYTES)


def weight_tile(filters: int, h: int, w: int) -> Tile:
    """A tile of conv3x3_grad_weight of 16 ``filters`` filters: as many rows as fit."""
    total = cdiv(w, 4)
    strips = cdiv(total, cdiv(total, 16))

    def floats(rows: int) -> int:
        return 16 * plane((rows + 2) * (4 * strips + 4)) + 16 * filters * plane(4 * rows * strips)

    fitting = max(rows for rows in range(2, 66, 2) if rows == 2 or floats(rows) <= MOST_FLOATS)
    rows = _even_bands(h, fitting)
    sums = 16 * filters * 16 * 9  # which pass through the tiles at the end
    shared = max(4 * floats(rows) + 16 * filters * CHANNEL_BYTES, 4 * sums)
    return Tile(rows, strips, cdiv(h, rows), cdiv(w, 4 * strips), shared)


def few_tile(channels: int, h: int, w: int) -> Tile:
    """A tile of conv3x3_grad_weight_few: whole rows, about 16 of them."""
    across = cdiv(w, 2)

    def floats(rows: int) -> int:
        return channels * plane((rows + 2) * (2 * across + 4))

    fitting = max(rows for rows in range(2, 18, 2) if rows == 2 or floats(rows) <= MOST_FLOATS)
    rows = _even_bands(h, fitting)
    return Tile(rows, 0, cdiv(h, rows), 1, 4 * floats(rows) + 16 * CHANNEL_BYTES)


class Weights(NamedTuple):
    """The geometry of dw: CHANNELS and FILTERS of the template, the tile, and the splits of the sum over pixels."""

    channels: int
    filters: int
    tile: Tile
    share: int  # bands of a split
    splits: int
    blocks: int

    @property
    def parts(self) -> int:
        """The first dimension of the partial sums."""
        return self.splits * self.tile.sides


def weights(n: int, c: int, h: int, w: int, k: int, sms: int) -> Weights:
    """The geometry of dw for ``sms`` SMs: one block with large tiles per SM; with small tiles as many as fit."""
    channels = 1 if c == 1 else 4 if c <= 4 else 16
    if channels == 16:
        filters = 1 if k <= 16 else 2
        tile = weight_tile(filters, h, w)
        tiles, wanted = cdiv(c, 16) * cdiv(k, 16 * filters) * tile.sides, sms
    else:
        filters = 2 if channels > 1 and k > 8 else 1
        tile = few_tile(channels, h, w)
        tiles, wanted = cdiv(k, 8 * filters), (4 if channels == 1 else 2) * sms
    units = n * tile.bands
    share = cdiv(units, max(1, min(units, wanted // tiles)))
    splits = cdiv(units, share)
    return Weights(channels, filters, tile, share, splits, tiles * splits)


class Inputs(NamedTuple):
    """The geometry of dx: planes of a thread, the tile, the splits of the sum over filters, and filters of a split."""

    each: int
    tile: Tile
    splits: int
    share: int
    blocks: int


@functools.lru_cache(maxsize=1024)
def inputs(n: int, c: int, h: int, w: int, k: int, sms: int) -> Inputs:
    """The geometry of dx for ``sms`` SMs: tiles of images, and for fewer tiles than fit splits of the filters.

    A block takes chunks of 8 or 16 filters one after another, whose latency is 2.5 to 10 µs each by the pixels of the
    tile (measured on an H200). A launch adds the splits: 2 µs, and 0.7 µs for each wave of blocks of 32 elements.
    """
    planes, four = each(c), groups(c)
    tile = output_tile(c, h, w, planes)
    tiles = n * tile.bands * tile.sides * cdiv(c, four * planes)
    pixels = min(tile.rows, h) * min(4 * tile.strips, w)
    chunk, chunk_us = (8, 2.5 + 0.008 * pixels) if four == 1 else (16, 5 + 0.02 * pixels)
    chunks = cdiv(k, chunk)

    def time_us(splits: int) -> float:
        waves = max(1.0, tiles * splits / (2 * sms))
        adding = 2 + 0.7 * cdiv(n * c * h * w, 32) / (2 * sms) if splits > 1 else 0.0
        return cdiv(chunks, splits) * chunk_us * waves + adding

    splits = min(range(1, max(1, min(chunks, MOST_SPLITS)) + 1), key=time_us)
    share = chunk * cdiv(chunks, splits)
    splits = max(1, cdiv(k, share))
    return Inputs(planes, tile, splits, share, tiles * splits)


def add_splits(module: Any, parts: torch.Tensor, dx: torch.Tensor) -> None:
    """``dx`` = the sum of ``parts`` over dimension 0, by conv_add_parts of ``module``."""
    module["warpwise::conv_add_parts"][cdiv(dx.numel(), 32), 1024](parts, cuda.out(dx), dx.numel(), len(parts))


def flags(*values: bool) -> str:
    """Template arguments of type bool."""
    return ", ".join(str(value).lower() for value in values)


def add_parts(module: Any, parts: torch.Tensor, sums: torch.Tensor) -> None:
    """``sums``, gradients of parameters, = the sum of ``parts`` over dimension 0, by conv_add_parts of ``module``."""
    kernel = module["warpwise::conv_add_parts"][cdiv(sums.numel(), 32), 1024]
    gradients_aside(lambda to: kernel(parts, cuda.out(to), to.numel(), parts.shape[0]), [sums], parts)
