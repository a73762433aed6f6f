"""Blocks of kernels that reduce a dimension other than the last: the lanes of a warp read neighbouring columns."""

from __future__ import annotations

import math
from typing import NamedTuple

from warpwise.operation import cdiv

LINE = 128  # minimum bytes of neighbouring columns that a block reads, if there are many columns
SECTOR = 32  # the same if there are few columns
FEW_VALUES, VALUES = 4, 16  # elements that a thread has in flight
SMALL_BLOCK, BLOCK = 256, 1024  # threads
FULL_WIDTH = 32  # columns: if blocks of this width are fewer than the SMs, there are few columns
SMALL_WIDTHS = (64, 32, 16, 8)  # columns of a block, if there are few columns
FEW_LINES = 5  # most lines of threads of a block with fewer than VALUES elements per thread, if there are few columns
LEAST_USE = 0.75  # minimum fraction of the GPU that the last wave uses


class Geometry(NamedTuple):
    """``threads`` per block, ``values`` in flight per thread, ``width`` columns per block, ``parts`` per column.

    ``share`` is the number of elements of a part.
    """

    threads: int
    values: int
    width: int
    parts: int
    share: int


def geometry(columns: int, length: int, itemsize: int, sms: int, fewest: int) -> Geometry:
    """The geometry for ``columns`` of ``length`` elements of ``itemsize`` bytes on ``sms`` SMs.

    A block computes ``fewest`` elements in about the time of a second launch.
    """
    if cdiv(columns, FULL_WIDTH) < sms and (small := _small(columns, length, itemsize, sms)):
        return small
    line = LINE // itemsize
    while line > SECTOR // itemsize and cdiv(columns, line) < sms:
        line //= 2
    narrow = min(columns, line)
    values = FEW_VALUES if length <= SMALL_BLOCK // narrow * FEW_VALUES else VALUES
    # The smallest block that loads whole columns of a line in one batch: an SM holds several such blocks.
    threads = _threads(length * narrow)
    width = max(line, threads // min(threads, cdiv(length, values)))  # so that one batch holds a column, if possible
    width = cdiv(columns, cdiv(columns, width))
    tiles = cdiv(columns, width)
    if width * length < fewest or tiles / sms >= LEAST_USE * cdiv(tiles, sms):
        return Geometry(threads, values, width, 1, length)
    # Each block of the second launch reads the statistics of all parts. With at most sqrt(length / 16) parts they are
    # few compared with its own elements.
    share = cdiv(length, max(1, min(cdiv(4 * sms, tiles), math.isqrt(length // 16))))
    return Geometry(_threads(width * share), values, width, cdiv(length, share), share)


def _small(columns: int, length: int, itemsize: int, sms: int) -> Geometry | None:
    """The geometry of few columns in one batch, or None if 1024 threads do not hold it.

    Blocks have up to 256 threads, or 1024 if there is at least one for each SM. The sum over up to FEW_LINES lines of
    threads takes less time than more loads per thread.
    """
    values = next((each for each in (FEW_VALUES, 2 * FEW_VALUES) if cdiv(length, each) <= FEW_LINES), VALUES)
    lines = max(1, cdiv(length, values))
    for width in SMALL_WIDTHS:
        if width * itemsize > LINE and lines > 1:
            continue
        width = min(columns, width)
        if width * lines <= SMALL_BLOCK or cdiv(columns, width) >= sms:
            break
    if width * lines > BLOCK:
        return None
    return Geometry(SMALL_BLOCK if width * lines <= SMALL_BLOCK else BLOCK, values, width, 1, length)


def _threads(elements: int) -> int:
    """The smallest block that holds ``elements`` in one batch."""
    return min(BLOCK, max(SMALL_BLOCK, 1 << (cdiv(elements, VALUES) - 1).bit_length()))
