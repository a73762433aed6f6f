"""Blocks of k08, which sums columns."""

from __future__ import annotations

from warpwise.operation import cdiv
from warpwise.ops._columns import SECTOR, VALUES, Geometry, geometry

LARGE, FEW_COLUMNS = 1 << 22, 64  # bytes from which one wave fills the GPU; columns
FEWEST_ELEMENTS = 16384  # elements of a block from which on there are two launches: a batch of 1024 threads
THREADS, NARROW_THREADS = 256, 512  # of a block, and of a block of few columns of 2-byte elements
TILED, TILED_NARROW = 512, 320  # elements of a column, and of a column of 2-byte elements, that a tile holds
MOST_TILED = 72 << 20  # bytes, from which on 4-byte elements are read in longer pieces of a row
TILE_WIDTHS, TILE_VALUES = (256, 128, 64), (4, 8, 16, 24, 32)  # columns of a block; elements of a thread in flight
LONG_TILED, LONG_THREADS, LONG_WIDTH = (128, 256), 512, 32  # elements of a column, for blocks of 512 threads
SHORT_WIDTHS = (256, 128, 64, 32)  # columns of a block


def column_geometry(count: int, length: int, itemsize: int, sms: int) -> Geometry:
    """One wave of blocks of 256 threads for large inputs: all blocks share the bandwidth until the end.

    A block of 1024 threads with 40 registers each fills an SM alone: 382 of them on 132 SMs took 259 µs, where one wave
    takes 241. The wave has 3 of the 6 resident blocks per SM for 4-byte elements; for 2-byte elements, of which half as
    many bytes are in flight, all 6. A block reads up to 1 KB of neighbouring columns, and all blocks read as many.
    Short columns have one part: a tile of 64 columns, or more if one batch of 32 loads of a thread holds them; in
    large matrices the widest blocks of which there are two per SM.
    """
    if is_tiled(count, length, itemsize, sms):
        return _tile(count, length, itemsize, sms)
    if count < FEW_COLUMNS or count * length * itemsize < LARGE:
        shape = geometry(count, length, itemsize, sms, FEWEST_ELEMENTS)
        return shape if shape.parts == 1 or itemsize >= 4 else _narrow_geometry(count, length, sms)
    if itemsize >= 4 and length <= TILED and 2 * cdiv(count, SHORT_WIDTHS[-1]) >= 3 * sms:
        width = next((each for each in SHORT_WIDTHS if cdiv(count, each) >= 2 * sms), SHORT_WIDTHS[-1])
        return Geometry(THREADS, VALUES, width, 1, length)
    most = (256 if count >= 2048 else 128) if itemsize >= 4 else 128 if count >= 1024 else 64
    width = cdiv(count, cdiv(count, most))
    tiles = cdiv(count, width)
    parts = min((3 if itemsize >= 4 else 6) * sms // tiles, length * width // (2 * VALUES * THREADS))
    share = cdiv(length, max(1, parts))
    return Geometry(THREADS, VALUES, width, cdiv(length, share), share)


def is_tiled(count: int, length: int, itemsize: int, sms: int) -> bool:
    """True for short columns that are a tile of 64 columns, or more, for each SM, in matrices of 4 MB and more.

    86 x 106362 in float32 takes 11.1 µs in tiles of 64 columns, 14.4 in blocks of 256; 75 x 120419 in bfloat16 7.0 µs,
    22.6 by k10. Columns of one line of threads have tiles in smaller matrices too.
    """
    if cdiv(count, TILE_WIDTHS[-1]) < sms or length > (TILED if itemsize >= 4 else TILED_NARROW):
        return False
    nbytes = count * length * itemsize
    one_line = length <= TILE_VALUES[-1] and count >= THREADS * sms
    return one_line or nbytes >= LARGE and (itemsize < 4 or nbytes < MOST_TILED)


def _tile(count: int, length: int, itemsize: int, sms: int) -> Geometry:
    """The widest tile that one batch of a thread's loads holds, else equal batches of 64 columns.

    Longer columns of 4-byte elements are one batch of a block of 512 threads: of 64 columns up to 256 elements, then of
    32, in pieces of 128 bytes. So are those of 2-byte elements if there are at most two tiles of 64 columns per SM: 300
    x 12001 takes 4.1 µs, 4.9 in batches.
    """
    one_batch, longest = LONG_TILED
    few = cdiv(count, TILE_WIDTHS[-1]) <= 2 * sms
    if length > longest if itemsize >= 4 else few and length > one_batch:
        return Geometry(LONG_THREADS, TILE_VALUES[-1], LONG_WIDTH, 1, length)
    if length > one_batch and itemsize >= 4:
        return Geometry(LONG_THREADS, TILE_VALUES[-1], TILE_WIDTHS[-1], 1, length)
    width = next((each for each in TILE_WIDTHS if THREADS // each * TILE_VALUES[-1] >= length), TILE_WIDTHS[-1])
    of_a_thread = cdiv(length, THREADS // width)
    batch = cdiv(of_a_thread, cdiv(of_a_thread, TILE_VALUES[-1]))
    return Geometry(THREADS, next(each for each in TILE_VALUES if batch <= each), width, 1, length)


def _narrow_geometry(count: int, length: int, sms: int) -> Geometry:
    """Parts of long columns of 2-byte elements: at most as many as lines of threads, so that a thread adds one sum.

    7168 x 12 takes 2.7 µs in 43 parts with 4 loads per thread, 3.0 to 3.5 in 11 to 22 parts.
    """
    width = cdiv(count, cdiv(count, SECTOR // 2))
    height = NARROW_THREADS // width
    values = next((each for each in (4, 8) if cdiv(length, each * height) <= height + 1), VALUES)
    share = cdiv(length, max(1, min(cdiv(length, values * height), 2 * height, 4 * sms // cdiv(count, width))))
    return Geometry(NARROW_THREADS, values, width, cdiv(length, share), share)
