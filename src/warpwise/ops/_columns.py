"""Blocks of kernels that reduce a dimension other than the last: the lanes of a warp read neighbouring columns."""

from __future__ import annotations

import math
from typing import NamedTuple

from warpwise.operation import cdiv

LINE, SECTOR = 128, 32  # minimum bytes of neighbouring columns that a block reads: of many columns, and of few
FEW_VALUES, VALUES = 4, 16  # elements that a thread has in flight
SMALL_BLOCK, BLOCK = 256, 1024
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
    line = LINE // itemsize
    while line > SECTOR // itemsize and cdiv(columns, line) < sms:
        line //= 2
    narrow = min(columns, line)
    values = FEW_VALUES if length <= SMALL_BLOCK // narrow * FEW_VALUES else VALUES
    # The smallest block in which one batch of a line's columns holds their length: several share an SM.
    threads = _threads(length * narrow)
    width = max(line, threads // min(threads, cdiv(length, values)))  # so that one batch is a column, if it can be
    width = cdiv(columns, cdiv(columns, width))
    tiles = cdiv(columns, width)
    if width * length < fewest or tiles / sms >= LEAST_USE * cdiv(tiles, sms):
        return Geometry(threads, values, width, 1, length)
    # Each block of the second launch reads the statistics of all parts: with at most sqrt(length / 16) parts that is
    # little beside its own elements.
    share = cdiv(length, max(1, min(cdiv(4 * sms, tiles), math.isqrt(length // 16))))
    return Geometry(_threads(width * share), values, width, cdiv(length, share), share)


def _threads(elements: int) -> int:
    """The smallest block that holds ``elements`` in one batch."""
    return min(BLOCK, max(SMALL_BLOCK, 1 << (cdiv(elements, VALUES) - 1).bit_length()))
