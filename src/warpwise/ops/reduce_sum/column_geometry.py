"""Blocks of k08, which sums columns."""

from __future__ import annotations

from warpwise.operation import cdiv
from warpwise.ops._columns import BLOCK, MOST_STARTED, SECTOR, VALUES, Geometry, geometry

LARGE, FEW_COLUMNS = 1 << 22, 64  # bytes from which one wave fills the GPU; columns
FEWEST_ELEMENTS = 16384  # elements of a block from which on there are two launches: a batch of 1024 threads
THREADS, NARROW_THREADS = 256, 512  # of a block, and of a block of few columns of 2-byte elements
ONE_LINE = 32  # elements of a column that one thread adds
SHORT_COLUMNS, SHORT_WIDTHS = 512, (256, 128, 64, 32)  # elements; columns of a block


def column_geometry(count: int, length: int, itemsize: int, sms: int) -> Geometry:
    """One wave of blocks of 256 threads for large inputs: all blocks share the bandwidth until the end.

    A block of 1024 threads with 40 registers each fills an SM alone: 382 of them on 132 SMs took 259 µs, where one wave
    takes 241. The wave has 3 of the 6 resident blocks per SM for 4-byte elements; for 2-byte elements, of which half as
    many bytes are in flight, all 6. A block reads up to 1 KB of neighbouring columns, and all blocks read as many.
    Short columns have one part if there are three blocks for two SMs, and two per SM if they can be; of the shortest
    a thread adds all elements, in large blocks if they are many.
    """
    if length <= ONE_LINE and count >= THREADS * sms:
        values = next((each for each in (4, 8) if length <= each), VALUES)
        threads = THREADS if count <= MOST_STARTED * THREADS * sms else BLOCK
        return Geometry(threads, values, threads, 1, length)
    if count < FEW_COLUMNS or count * length * itemsize < LARGE:
        shape = geometry(count, length, itemsize, sms, FEWEST_ELEMENTS)
        return shape if shape.parts == 1 or itemsize >= 4 else _narrow_geometry(count, length, sms)
    if itemsize >= 4 and length <= SHORT_COLUMNS and 2 * cdiv(count, SHORT_WIDTHS[-1]) >= 3 * sms:
        width = next((each for each in SHORT_WIDTHS if cdiv(count, each) >= 2 * sms), SHORT_WIDTHS[-1])
        return Geometry(THREADS, VALUES, width, 1, length)
    most = (256 if count >= 2048 else 128) if itemsize >= 4 else 128 if count >= 1024 else 64
    width = cdiv(count, cdiv(count, most))
    tiles = cdiv(count, width)
    parts = min((3 if itemsize >= 4 else 6) * sms // tiles, length * width // (2 * VALUES * THREADS))
    share = cdiv(length, max(1, parts))
    return Geometry(THREADS, VALUES, width, cdiv(length, share), share)


def _narrow_geometry(count: int, length: int, sms: int) -> Geometry:
    """Parts of long columns of 2-byte elements: at most as many as lines of threads, so that a thread adds one sum.

    7168 x 12 takes 2.7 µs in 43 parts with 4 loads per thread, 3.0 to 3.5 in 11 to 22 parts.
    """
    width = cdiv(count, cdiv(count, SECTOR // 2))
    height = NARROW_THREADS // width
    values = next((each for each in (4, 8) if cdiv(length, each * height) <= height + 1), VALUES)
    share = cdiv(length, max(1, min(cdiv(length, values * height), 2 * height, 4 * sms // cdiv(count, width))))
    return Geometry(NARROW_THREADS, values, width, cdiv(length, share), share)
