"""The geometry of one_channel.cuh: tiles of images of one channel, and how blocks divide them."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch

from warpwise.operation import cdiv

THREADS = 256  # kThreads of both kernels
PART = 56  # kPart
MOST_COLUMNS = 2048
TILE_BYTES, MOST_IMAGES = 40_000, 16  # of a tile that holds more than one band of two rows
WINDOW_BYTES = 4  # of an element of the list of windows
WINDOW_WORK, PIXEL_WORK, PIXEL_SUMS = 190, 150, 300  # instructions of a thread for an item, and for the sums of a block


class Tiles(NamedTuple):
    """Tiles of ``each`` images, or of one of ``bands`` bands of ``rows`` rows; a block has ``share`` of the units."""

    rows: int
    bands: int
    each: int
    pitch: int
    share: int
    blocks: int

    def shared(self, columns: int = 0) -> int:
        """Bytes of shared memory, with a list of the windows of which a row has ``columns``."""
        return self.each * (4 * (self.rows + 2) * self.pitch + WINDOW_BYTES * self.rows // 2 * columns)


def limits(input: torch.Tensor) -> str | None:
    """The reason why the tiles do not take ``input`` (N, C, H, W), or None."""
    if input.shape[1] != 1:
        return f"takes one input channel, not {input.shape[1]}"
    if input.shape[3] > MOST_COLUMNS:
        return f"takes up to {MOST_COLUMNS} columns, not {input.shape[3]}"
    return None


def _pitch(w: int) -> int:
    """Floats of a row: even for loads of 8 bytes; 2 pitch is w mod 32 if w is a multiple of 4.

    Lanes with consecutive windows then read consecutive pairs of banks, also where a row ends.
    """
    half = cdiv(w // 2, 2) * 2
    return w + 2 + w % 2 + (half - (w + 2 + w % 2)) % 16


def tiles(n: int, h: int, w: int, rows: int, columns: int, most: int, threads: int) -> Tiles:
    """Tiles of ``n`` images of h x w pixels for at most ``most`` blocks.

    ``threads`` threads of a block take items, of which an image has ``rows`` (of two pixels each) x ``columns``.
    """
    return planned(n, h, w, rows, columns, most, threads)[1]


@functools.lru_cache(4096)
def planned(n: int, h: int, w: int, rows: int, columns: int, most: int, threads: int) -> tuple[int, Tiles]:
    """The fewest items of a thread, one more for each tile, over the units of a block, and the ``tiles``."""
    pitch = _pitch(w)
    fitting = max(1, (TILE_BYTES // (4 * pitch) - 2) // 2)
    fewest = cdiv(rows, fitting)
    return min(
        (
            _of_bands(n, cdiv(rows, bands), rows, columns, most, threads, pitch)
            for bands in range(fewest, max(fewest, min(rows, cdiv(most, n) + 1)) + 1)
        ),
        key=lambda found: found[0],
    )


def _of_bands(n: int, band: int, rows: int, columns: int, most: int, threads: int, pitch: int) -> tuple[int, Tiles]:
    bands = cdiv(rows, band)
    share = cdiv(n * bands, most)
    images = 1 if bands > 1 else max(1, min(share, MOST_IMAGES, TILE_BYTES // (4 * pitch * (2 * band + 2))))

    def turns(each: int) -> int:
        full, rest = divmod(share, each)
        return sum(count * (cdiv(units * band * columns, threads) + 1) for count, units in ((full, each), (1, rest)))

    each = min(range(1, images + 1), key=turns)
    return turns(each), Tiles(2 * band, bands, each, pitch, share, cdiv(n * bands, share))


@functools.lru_cache(256)
def backward_tiles(n: int, h: int, w: int, tall: int, splits: int, slots: int) -> tuple[Tiles, Tiles]:
    """Tiles of windows and of pixels for ``slots`` blocks in all, so that the slower of both is fastest.

    ``tall`` blocks have the same windows and different filters.
    """

    def plan(pixel_blocks: int) -> tuple[int, Tiles, Tiles]:
        most = max(1, (slots - pixel_blocks) // tall)
        window_turns, windows = planned(n, h, w, h // 2, w // 2, most, 32 * splits)
        pixel_turns, pixels = planned(n, h, w, cdiv(h, 2), w, pixel_blocks, THREADS)
        return max(WINDOW_WORK * window_turns, PIXEL_WORK * pixel_turns + PIXEL_SUMS), windows, pixels

    counts = sorted({max(1, slots * part // 32) for part in range(1, 25)})
    _, windows, pixels = min((plan(count) for count in counts), key=lambda found: found[0])
    return windows, pixels


def vector(input: torch.Tensor) -> int:
    """VECTOR of Tiles."""
    return 4 if input.shape[3] % 4 == 0 and input.data_ptr() % 16 == 0 else 1


def groups(filters: int, each: int) -> int:
    """Groups of ``each`` filters of a block of eight warps: a power of two."""
    return next(count for count in (1, 2, 4, 8) if count == 8 or count * each >= filters)
