"""The tiles of k09, and the matrices that fill those of k05, as measured (NOTES.md)."""

from __future__ import annotations

import torch

from warpwise.operation import cdiv

PACK, SECTOR = 16, 32  # bytes of an access, and of a sector
WARP = 32
WIDE = 4  # bytes of an element; smaller ones are narrow
EDGE, NARROW_EDGE = 64, 128  # of k05's tiles for 4-byte elements, and for narrow ones
SHORT_ROW = 512  # elements of a row of the output that is short
WHOLE_ROW = 128  # elements of a row of the output that a tile of k09 has as a whole
LONG_PIECE = 1024  # bytes of a row of the output that a tile of k09 has beyond L2, if rows are not whole sectors
FULL = 1.02  # elements of k05's tiles for each element of the matrix, at most, for narrow elements
SMALL, HIGH, MEDIUM, LARGE = 6 << 20, 12 << 20, 16 << 20, 22 << 20  # bytes of a matrix
BEYOND_L2 = 32 << 20  # bytes of a matrix that, with its transpose, exceeds L2


def unaligned_tile(input: torch.Tensor) -> tuple[int, int]:
    """Rows and columns of a tile of k09. Rows of the output that begin at multiples of 32 bytes are written in pieces
    of whole sectors, so long pieces are read; other rows are written in long pieces.

    For elements of 4 and 8 bytes, the first that applies:

    - 256 x 32 from 12 MB on, for 129 to 512 rows and as many columns or more, both whole packs of 4-byte elements;
    - below 16 MB 32 x 64 for more than 512 rows that are whole sectors of the output, else 64 x 32;
    - 32 x 64 for rows that are whole sectors, but not for up to 512 rows and more columns;
    - from 32 MB on, for other rows, 1 KB of the output: 256 x 32 (8 bytes: 128 x 32);
    - 64 x 32 for elements of 8 bytes;
    - 128 x 32 for 65 to 128 rows that are not whole sectors, else 64 x 128.
    """
    size, (rows, cols), nbytes = input.element_size(), input.shape, input.nbytes
    if size < WIDE:
        return _narrow_tile(rows, cols, size)
    sectors, short = rows * size % SECTOR == 0, rows <= SHORT_ROW
    packs = rows * size % PACK == 0 and cols * size % PACK == 0
    if nbytes >= HIGH and size == WIDE and packs and WHOLE_ROW < rows <= min(cols, SHORT_ROW):
        return 256, 32
    if nbytes < MEDIUM:
        return (32, 64) if sectors and not short else (64, 32)
    if sectors and not (short and rows < cols):
        return 32, 64
    if nbytes >= BEYOND_L2 and not sectors:
        return min(256, LONG_PIECE // size), 32
    if size > WIDE:
        return 64, 32
    return (128, 32) if EDGE < rows <= WHOLE_ROW and not sectors else (64, 128)


def _narrow_tile(rows: int, cols: int, size: int) -> tuple[int, int]:
    """The same for elements of 1 and 2 bytes, the first that applies:

    - for a side of up to 32 elements, and below 6 MB, 32 x 64, or 64 x 32 for up to 32 columns;
    - below 16 MB 128 x 32 for fewer than 64 columns;
    - below 32 MB 32 x 64 for more than 512 rows that are whole sectors of the output;
    - below 32 MB 64 x 64 from 16 MB on, for more than 512 rows of 2 bytes, else 64 x 128;
    - 64 x 128 for rows that are whole sectors;
    - 128 x 32 (1 byte: 128 x 64).
    """
    nbytes, sectors, short = rows * cols * size, rows * size % SECTOR == 0, rows <= SHORT_ROW
    if min(rows, cols) <= WARP or nbytes < SMALL:
        return (64, 32) if cols <= WARP else (32, 64)
    if nbytes < MEDIUM and cols < EDGE:
        return 128, 32
    if nbytes < BEYOND_L2:
        if sectors and not short:
            return 32, 64
        return (64, 64) if nbytes >= MEDIUM and size == 2 and not short else (64, 128)
    return (64, 128) if sectors else (128, 64) if size == 1 else (128, 32)


def equal_tile(input: torch.Tensor, tile: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of the fewest equal tiles of up to ``tile``; whole sectors of the output's rows where those are.

    A sector that two tiles share is written in two parts, and may leave L2 between them.
    """
    (rows, cols), sector = input.shape, SECTOR // input.element_size()
    height, width = (cdiv(size, cdiv(size, most)) for size, most in zip((rows, cols), tile, strict=True))
    return (cdiv(height, sector) * sector if rows % sector == 0 else height), width


def edge(size: int) -> int:
    """Rows and columns of a tile of k05, for elements of ``size`` bytes."""
    return EDGE if size >= WIDE else NARROW_EDGE


def fills_tiles(input: torch.Tensor) -> bool:
    """True if k05 is faster than k09, for rows of whole packs.

    - Elements of 4 and 8 bytes: from 22 MB on, if the short side has more than 128 elements or is a multiple of the
      tile's edge. Below, if it is a multiple of up to 512 elements of 4 bytes, or 128 of 8 bytes.
    - Elements of 1 and 2 bytes: from 12 MB on, if the short side has more than 256 elements. Otherwise, if the tiles
      have at most 2 % more elements than the matrix.
    """
    (rows, cols), size = input.shape, input.element_size()
    few, tile = min(rows, cols), edge(size)
    if size < WIDE:
        full = cdiv(rows, tile) * cdiv(cols, tile) * tile * tile <= FULL * rows * cols
        return full or (few > 2 * tile and input.nbytes >= HIGH)
    multiple, most = few % tile == 0, SHORT_ROW if size == WIDE else 2 * tile
    return multiple or few > 2 * tile if input.nbytes >= LARGE else multiple and few <= most
