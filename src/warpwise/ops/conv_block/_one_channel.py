"""The geometry of one_channel.cuh: tiles of images of one channel, and how blocks divide them."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch

from warpwise.operation import cdiv

THREADS = 256  # kThreads of both kernels
PART = 56  # kPart
MOST_COLUMNS = 2048
TILE_BYTES, MOST_IMAGES = 40_000, 16  # limits of a tile with more than one band of two rows
WINDOW_BYTES = 4  # per entry of the list of windows


class Tiles(NamedTuple):
    """Tiles of ``each`` images, or of one of ``bands`` bands of ``rows`` rows; a block takes ``share`` of them."""

    rows: int
    bands: int
    each: int
    pitch: int
    share: int
    blocks: int

    def shared(self, columns: int = 0) -> int:
        """Bytes of shared memory, including a list of the windows, ``columns`` per row."""
        return self.each * (4 * (self.rows + 2) * self.pitch + WINDOW_BYTES * self.rows // 2 * columns)


def limits(input: torch.Tensor) -> str | None:
    """The reason why the tiles do not take ``input`` (N, C, H, W), or None."""
    if input.shape[1] != 1:
        return f"takes one input channel, not {input.shape[1]}"
    if input.shape[3] > MOST_COLUMNS:
        return f"takes up to {MOST_COLUMNS} columns, not {input.shape[3]}"
    return None


def _pitch(w: int) -> int:
    """Floats per row: even, for 8-byte loads; 2 pitch is w mod 32 if w is a multiple of 4.

    Lanes with consecutive windows then read consecutive pairs of banks, also across the end of a row.
    """
    half = cdiv(w // 2, 2) * 2
    return w + 2 + w % 2 + (half - (w + 2 + w % 2)) % 16


@functools.lru_cache(1024)
def tiles(n: int, h: int, w: int, rows: int, columns: int, most: int, threads: int) -> Tiles:
    """Tiles of ``n`` images of h x w pixels for at most ``most`` blocks, with the fewest iterations per thread.

    The ``threads`` threads of a block divide the items; an image has ``rows`` (of two pixels each) x ``columns``.
    """
    pitch = _pitch(w)
    fitting = max(1, (TILE_BYTES // (4 * pitch) - 2) // 2)
    fewest = cdiv(rows, fitting)

    def of_bands(wanted: int) -> tuple[int, Tiles]:
        band = cdiv(rows, wanted)
        bands = cdiv(rows, band)
        share = cdiv(n * bands, most)
        images = 1 if bands > 1 else max(1, min(share, MOST_IMAGES, TILE_BYTES // (4 * pitch * (2 * band + 2))))

        def turns(each: int) -> int:
            """Items per thread, plus one per tile, over the units of a block."""
            full, rest = divmod(share, each)
            return sum(c * (cdiv(units * band * columns, threads) + 1) for c, units in ((full, each), (1, rest)))

        each = min(range(1, images + 1), key=turns)
        return turns(each), Tiles(2 * band, bands, each, pitch, share, cdiv(n * bands, share))

    last = max(fewest, min(rows, cdiv(most, n) + 1))
    return min((of_bands(wanted) for wanted in range(fewest, last + 1)), key=lambda found: found[0])[1]


def vector(input: torch.Tensor) -> int:
    """VECTOR of Tiles."""
    return 4 if input.shape[3] % 4 == 0 and input.data_ptr() % 16 == 0 else 1


def groups(filters: int, each: int) -> int:
    """The number of groups of ``each`` filters in a block of eight warps: a power of two."""
    return next(count for count in (1, 2, 4, 8) if count == 8 or count * each >= filters)
