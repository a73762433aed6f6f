"""Blocks of k08 and k12, which sum columns."""

from __future__ import annotations

from typing import NamedTuple

from warpwise.operation import cdiv
from warpwise.ops._columns import LINE, VALUES, Geometry, geometry

LARGE = 1 << 22  # bytes of a matrix from which on one wave fills the GPU
FEW_COLUMNS = 64
FEWEST_ELEMENTS = 16384  # elements of a block from which on there are two launches: a batch of 1024 threads
THREADS = 256  # of a block
LONG_SMALL = 1024  # elements of a column: longer ones of a small matrix have the blocks of ``_one_launch``
ONE_LAUNCH_WIDTHS = (64, 32)  # columns of these blocks
MAX_BATCHES = 2  # of a thread of a block of THREADS; for more, the block has twice as many threads
MOST_PACKETS = 4096  # sums of parts of all columns, in the memory that a stream has for them
PACKETS = 8  # sums of parts that a thread adds, at most, in one launch
TILED = 256  # elements of a column that a tile holds, at most
TILED_NARROW = 320  # the same for 2-byte elements
TILE_WIDTHS = (256, 128, 64)  # columns of a tile
TILE_VALUES = (4, 8, 16, 24, 32)  # elements of a thread in flight
LONG_TILED = 128  # elements of a column: a tile of longer ones has LONG_THREADS threads
LONG_THREADS = 512
LONG_WIDTH = 32  # columns of such a tile of 2-byte elements, if it is one batch
SHORT_WIDTH = 32  # columns of a block of short columns that are too few for tiles
EVEN_VALUES = 32  # elements in flight of a thread of an even block of EVEN_THREADS
MIN_EVEN = 257  # 4-byte elements of a column in even blocks, at least
MIN_EVEN_LARGE, MIN_EVEN_LARGE_BYTES = 129, 72 << 20  # the same, and the bytes of a matrix from which on
EVEN_THREADS = 512  # threads of an even block: of 2-byte elements, and of up to 512 columns
WIDE_THREADS = 1024  # threads of an even block of more columns
PIECE = 8  # the columns of an even block are a multiple of it: whole sectors of 4-byte elements
EVEN_USE = 0.9  # minimum fraction of the even blocks that have columns
EVEN_NARROW, MOST_EVEN_NARROW = 96, 768  # elements of columns of 2-byte elements in even blocks: more, and at most
MOST_EVEN_NARROW_BYTES = 200 << 20
SHORT_WORD, LONG_WORD = 16, 8  # bytes of a word, which a thread of k12 loads at once: of short and of long columns
NARROW_WORD = 4  # the same of long columns of 2-byte elements that are not a multiple of 8 bytes apart
MAX_SHORT = 32  # elements of a short column, at most
WORDS_IN_FLIGHT = (2, 4, 8, 16)  # loads in flight of a thread of k12
NARROW_THREADS, NARROW_IN_FLIGHT = 512, 8  # threads of a block for words of 4 bytes, and their loads in flight
BLOCKS_PER_SM = 2  # blocks of k12 for long columns
SECTOR = 32  # bytes: a block of k12 reads a multiple of SECTOR or LINE bytes of a row of the matrix
MIN_WIDTH = 8  # words of a row that such a block reads, at least
MIN_LONG, MIN_LONG_NARROW = 129, 97  # elements of a long column of k12, at least: of 4 bytes, of 2 bytes
MIN_LONG_LARGE, MIN_LONG_LARGE_BYTES = 64, 24 << 20  # the same of 4 bytes, and the bytes of a matrix from which on
VERY_LONG = 5000  # elements of a column from which on k10 is faster than an uneven number of blocks per SM
VERY_LONG_BYTES = 64 << 20  # bytes of a matrix of very long columns of 4-byte elements, at least, for k10
MIN_VERY_LONG_BLOCKS = 1.5  # blocks for each SM, at least, that sum very long columns in k12


class WordBlock(NamedTuple):
    """A block of k12: ``width`` x ``height`` threads, each with ``values`` loads of ``bytes`` in flight.

    ``width`` threads read adjacent words of a row, and ``height`` threads share a column. The kernel is compiled for
    up to ``threads``.
    """

    bytes: int
    width: int
    height: int
    values: int
    threads: int


def column_geometry(count: int, length: int, itemsize: int, sms: int) -> Geometry:
    """The blocks of k08: the first of these cases that applies.

    Even blocks (``even_geometry``), or tiles of short columns (``is_tiled``). Matrices of less than 64 columns or 4 MB:
    for more than 64 columns of more than 1024 elements parts that one launch adds (``_one_launch``), else the geometry
    of ``_columns.py``. Columns of up to 256 4-byte elements that are too few for tiles: blocks of 32 columns. Others:
    one wave of blocks of 256 threads, for up to 256 columns of 4-byte or 128 of 2-byte elements. It has 3 of the 6
    resident blocks per SM for 4-byte elements; for 2-byte elements, of which half as many bytes are in flight, all 6.
    """
    if even := even_geometry(count, length, itemsize, sms):
        return even
    if is_tiled(count, length, itemsize, sms):
        return _tile(count, length, itemsize, sms)
    if count < FEW_COLUMNS or count * length * itemsize < LARGE:
        if count > FEW_COLUMNS and length > LONG_SMALL:
            return _one_launch(count, length)
        return geometry(count, length, itemsize, sms, FEWEST_ELEMENTS)
    if itemsize >= 4 and length <= TILED and 2 * cdiv(count, SHORT_WIDTH) >= 3 * sms:
        return Geometry(THREADS, VALUES, SHORT_WIDTH, 1, length)
    most = (256 if count >= 2048 else 128) if itemsize >= 4 else 128 if count >= 1024 else 64
    width = cdiv(count, cdiv(count, most))
    tiles = cdiv(count, width)
    parts = min((3 if itemsize >= 4 else 6) * sms // tiles, length * width // (2 * VALUES * THREADS))
    share = cdiv(length, max(1, parts))
    return Geometry(THREADS, VALUES, width, cdiv(length, share), share)


def even_geometry(count: int, length: int, itemsize: int, sms: int) -> Geometry | None:
    """One block for each SM, or two for 2-byte elements, each for the same number of columns; None for other matrices.

    The matrix has at least 4 MB. The columns have more than 256 4-byte elements (more than 128 from 72 MB on), or 97 to
    768 2-byte elements in up to 200 MB. If a block has too few threads for its columns, there are twice as many blocks,
    or three times as many.

    Three to six blocks for each SM, which holds six, are distributed unevenly: 513 x 89052 in float32 takes 57.4 µs in
    348 blocks of 256 columns, 45.2 in 131 of 680.
    """
    nbytes = count * length * itemsize
    threads, together = (WIDE_THREADS, 1) if itemsize >= 4 else (EVEN_THREADS, 2)
    blocks = together * sms * cdiv(count, threads * together * sms)
    width = PIECE * cdiv(count, PIECE * blocks)
    if nbytes < LARGE or width * itemsize < LINE or cdiv(count, width) < EVEN_USE * blocks:
        return None
    if itemsize >= 4:
        threads, values = (EVEN_THREADS, EVEN_VALUES) if width <= EVEN_THREADS else (threads, VALUES)
        least = MIN_EVEN_LARGE if nbytes >= MIN_EVEN_LARGE_BYTES else MIN_EVEN
        return Geometry(threads, values, width, 1, length) if length >= least else None
    narrow = EVEN_NARROW < length <= MOST_EVEN_NARROW and nbytes <= MOST_EVEN_NARROW_BYTES
    return Geometry(threads, VALUES, width, 1, length) if narrow else None


def is_tiled(count: int, length: int, itemsize: int, sms: int) -> bool:
    """True for columns of up to 256 elements (2-byte: 320), at least 64 for each SM, in matrices of 4 MB and more.

    86 x 106362 in float32 takes 11.1 µs in tiles of 64 columns, 14.4 in blocks of 256; 75 x 120419 in bfloat16 7.0 µs,
    22.6 by k10. Columns of up to 32 elements, at least 256 for each SM, have tiles in smaller matrices too.
    """
    if cdiv(count, TILE_WIDTHS[-1]) < sms or length > (TILED if itemsize >= 4 else TILED_NARROW):
        return False
    return count * length * itemsize >= LARGE or length <= TILE_VALUES[-1] and count >= THREADS * sms


def _tile(count: int, length: int, itemsize: int, sms: int) -> Geometry:
    """The widest tile that one batch of a thread's loads holds, else equal batches of 64 columns.

    Columns of more than 128 elements are one batch of a block of 512 threads: of 64 columns of 4-byte elements; of 32
    of 2-byte elements if there are at most two tiles of 64 columns per SM: 300 x 12001 takes 4.1 µs, 4.9 in batches.
    """
    if length > LONG_TILED and itemsize >= 4:
        return Geometry(LONG_THREADS, TILE_VALUES[-1], TILE_WIDTHS[-1], 1, length)
    if length > LONG_TILED and cdiv(count, TILE_WIDTHS[-1]) <= 2 * sms:
        return Geometry(LONG_THREADS, TILE_VALUES[-1], LONG_WIDTH, 1, length)
    width = next((each for each in TILE_WIDTHS if THREADS // each * TILE_VALUES[-1] >= length), TILE_WIDTHS[-1])
    of_a_thread = cdiv(length, THREADS // width)
    batch = cdiv(of_a_thread, cdiv(of_a_thread, TILE_VALUES[-1]))
    return Geometry(THREADS, next(each for each in TILE_VALUES if batch <= each), width, 1, length)


def _one_launch(count: int, length: int) -> Geometry:
    """Parts whose sums one launch adds: of 64 columns and one batch of a thread's loads, else of 32 columns.

    2458 x 194 in float32 takes 3.2 µs in 20 parts of 32 columns, and in 39 of 64 columns by two launches, of which the
    second costs a call 4 µs and more; 12 parts of 8 columns take 4.2.
    """
    wide, narrow = ONE_LAUNCH_WIDTHS
    parts, most = cdiv(length, VALUES * (THREADS // wide)), MOST_PACKETS // count + 1
    threads, width = THREADS, wide
    if parts > min(most, PACKETS * (THREADS // wide)):
        batches = cdiv(length, VALUES * (THREADS // narrow))
        threads, width = THREADS if cdiv(batches, most) <= MAX_BATCHES else 2 * THREADS, narrow
        batches = cdiv(length, VALUES * (threads // narrow))
        parts = cdiv(batches, cdiv(batches, most))
    share = cdiv(length, parts)
    return Geometry(threads, VALUES, width, cdiv(length, share), share)


def has_short_words(length: int, stride: int) -> bool:
    """True for short columns in whole words of 16 bytes. ``stride`` is that between their elements, in bytes."""
    return length <= MAX_SHORT and stride % SHORT_WORD == 0


def word_of(stride: int, itemsize: int) -> int | None:
    """The bytes of a word for long columns whose elements are ``stride`` bytes apart; None if k12 has none."""
    if stride % LONG_WORD == 0:
        return LONG_WORD
    return NARROW_WORD if itemsize < NARROW_WORD and stride % NARROW_WORD == 0 else None


def word_geometry(count: int, stride: int, length: int, itemsize: int, sms: int) -> WordBlock:
    """The blocks of k12: 256 words of 16 bytes for short columns; else words of 8 or 4 bytes, two blocks for each SM.

    ``stride`` is that between the elements of a column, in bytes. A block of long columns reads a multiple of 128 bytes
    of a row of 4-byte elements, of 32 bytes of 2-byte elements. If two blocks for each SM have too few threads, there
    are four, or six. Blocks for words of 4 bytes have 512 threads: 157 x 87698 in bfloat16 takes 8.3 µs in them, 10.1
    in blocks of 256 threads that have twice as many loads in flight.
    """
    if has_short_words(length, stride):
        few, most = WORDS_IN_FLIGHT[:-2], WORDS_IN_FLIGHT[-2]
        return WordBlock(SHORT_WORD, THREADS, 1, next((each for each in few if length <= each), most), THREADS)
    word = word_of(stride, itemsize)
    assert word is not None
    narrow = word == NARROW_WORD
    threads, values = (NARROW_THREADS, NARROW_IN_FLIGHT) if narrow else (THREADS, WORDS_IN_FLIGHT[-1])
    words = cdiv(count * itemsize, word)
    blocks = BLOCKS_PER_SM * sms * cdiv(words, BLOCKS_PER_SM * sms * threads)
    piece = (LINE if itemsize >= 4 else SECTOR) // word
    width = max(MIN_WIDTH, piece * cdiv(words, piece * blocks))
    return WordBlock(word, width, max(1, min(threads // width, cdiv(length, values))), values, threads)


def words_fill_sms(count: int, stride: int, length: int, itemsize: int, sms: int) -> bool:
    """True if k12 has one or two blocks for each SM, for long columns in matrices of 4 MB and more.

    600 x 40000 in float32 takes 23.7 µs in two blocks of k12 on each SM, 26.6 in one block of k08. Columns of 5000 and
    more elements need 1.5 blocks for each SM: 20000 x 4400 in bfloat16 takes 54.7 µs in 138 blocks, 44.3 by k10.
    """
    nbytes = count * length * itemsize
    least = MIN_LONG_NARROW if itemsize < 4 else MIN_LONG_LARGE if nbytes >= MIN_LONG_LARGE_BYTES else MIN_LONG
    if word_of(stride, itemsize) is None or length < least or nbytes < LARGE:
        return False
    shape = word_geometry(count, stride, length, itemsize, sms)
    words = cdiv(count * itemsize, shape.bytes)
    if words > BLOCKS_PER_SM * sms * shape.threads:
        return False
    return cdiv(words, shape.width) >= (MIN_VERY_LONG_BLOCKS * sms if length >= VERY_LONG else sms)


def is_very_long(count: int, length: int, itemsize: int) -> bool:
    """True for columns of 4-byte elements that k10 sums faster than k08: 20000 x 5000 takes 93 µs, and 107 by k08."""
    return itemsize >= 4 and length >= VERY_LONG and count * length * itemsize >= VERY_LONG_BYTES
