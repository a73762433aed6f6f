"""The ladder of transpose, slowest idea first. Kernels treat elements as integers of the same width."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv, make_rung, sm_count
from warpwise.ops.transpose.tiles import (
    BEYOND_L2,
    MEDIUM,
    PACK,
    WARP,
    WIDE,
    edge,
    equal_tile,
    fills_tiles,
    unaligned_tile,
)

HERE = Path(__file__).parent
MAX_GRID_Y = 65535
SMALL_TILE = 32  # the shortest side of a matrix that has tiles; for a shorter one see ``_short_side``
MOST_SHORT = 8  # the longest short side of k10
SHORT_THREADS = 128  # threads of k10's blocks
STRIP_THREADS, STRIP_ELEMENTS, SHORTEST_STRIP = 256, 2048, 32
FITTED_THREADS = 256
WAVE = 2048  # threads of an SM
FITTED_WAVES, LEAST_STRIP_WAVES, SHORT_WAVES, LEAST_SHORT_WAVES = 4, 0.75, 2, 0.125  # see ``_short_side``
LEAST_NARROW_STRIP_WAVES, LEAST_TILE_WAVES = 0.5, 0.25  # the same, for 1- and 2-byte elements
NARROW_STRIPS = (5, 7)  # rows of 1- and 2-byte elements that k07 moves, not k10
NARROW_STRIPS_MOST = 16  # the longest short side of k07 for 1- and 2-byte elements, by default
MAX_FEW = 128  # the longest short side that k07 takes
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

COALESCED_READS = cuda.load(HERE / "k01_coalesced_reads.cu")
COALESCED_WRITES = cuda.load(HERE / "k02_coalesced_writes.cu")
SHARED_TILE = cuda.load(HERE / "k03_shared_tile.cu")
PADDED_TILE = cuda.load(HERE / "k04_padded_tile.cu")
REGISTER_BLOCKS = cuda.load(HERE / "k05_register_blocks.cu")
STRIPS = cuda.load(HERE / "k07_strips.cu")
FITTED_BLOCKS = cuda.load(HERE / "k08_fitted_blocks.cu")
UNALIGNED_TILES = cuda.load(HERE / "k09_unaligned_tiles.cu")
SHORT_SIDES = cuda.load(HERE / "k10_short_sides.cu")


def _bits(out: torch.Tensor, input: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, str]:
    """Output and input viewed as integers of the same width, and the C type of those."""
    dtype = BITS[input.element_size()]
    return out.view(dtype), input.view(dtype), cuda.ctype(dtype)


def _tile_of_32(module: cuda.Module) -> Callable[[torch.Tensor, torch.Tensor], None]:
    def launch(out: torch.Tensor, input: torch.Tensor) -> None:
        (rows, cols), (out, input, ctype) = input.shape, _bits(out, input)
        grid = (cdiv(cols, 32), cdiv(rows, 32))
        module[f"transpose<{ctype}>"][grid, (32, 8)](input, cuda.out(out), rows, cols)

    return launch


def register_blocks(out: torch.Tensor, input: torch.Tensor) -> None:
    (rows, cols), (out, input, ctype) = input.shape, _bits(out, input)
    lanes, pack = 16, 8 if input.element_size() == 1 else 16  # blocks of 16 x 16 bytes do not fit in the registers
    edge = lanes * pack // input.element_size()
    tiles = cdiv(rows, edge) * cdiv(cols, edge)
    kernel = REGISTER_BLOCKS[f"transpose<{ctype}, {pack}, {lanes}>"]
    kernel[tiles, lanes * lanes](input, cuda.out(out), rows, cols, input.nbytes >= BEYOND_L2)


def triton(out: torch.Tensor, input: torch.Tensor) -> None:
    from warpwise.ops.transpose.k06_triton import transpose

    (rows, cols), (out, input, _) = input.shape, _bits(out, input)
    block = 64
    tiles = cdiv(rows, block) * cdiv(cols, block)
    transpose[(tiles,)](input, out, rows, cols, BLOCK_M=block, BLOCK_N=block, num_warps=8)


def strips(out: torch.Tensor, input: torch.Tensor) -> None:
    (rows, cols), (out, input, ctype) = input.shape, _bits(out, input)
    few, length = min(rows, cols), max(rows, cols)
    # A divisor of STRIP_THREADS with up to STRIP_ELEMENTS per strip, eight per thread.
    strip = 1 << (min(STRIP_THREADS, max(SHORTEST_STRIP, STRIP_ELEMENTS // few)).bit_length() - 1)
    pitch, batch = strip + cdiv(WARP, few), 8 if few * strip <= 8 * STRIP_THREADS else 16
    kernel = STRIPS[f"transpose<{ctype}, {'true' if rows <= cols else 'false'}, {batch}>"]
    launch = kernel[cdiv(length, strip), STRIP_THREADS, (few * pitch + STRIP_THREADS) * input.element_size()]
    launch(input, cuda.out(out), length, few, cdiv(1 << 32, few) % (1 << 32), strip, pitch)


def _fitted(rows: int, cols: int) -> tuple[int, int]:
    """A block of about 256 threads, along the rows and columns of the output: a short side as a whole up to 32."""
    if rows < cols:
        along = max(1, min(rows, WARP))
        return along, FITTED_THREADS // along
    across = max(1, min(cols, WARP))
    return WARP * max(1, FITTED_THREADS // (WARP * across)), across


def fitted_blocks(out: torch.Tensor, input: torch.Tensor) -> None:
    (rows, cols), (out, input, ctype) = input.shape, _bits(out, input)
    block = _fitted(rows, cols)
    grid = (cdiv(cols, block[1]), cdiv(rows, block[0]))
    FITTED_BLOCKS[f"transpose<{ctype}>"][grid, block](input, cuda.out(out), rows, cols)


def unaligned_tiles(out: torch.Tensor, input: torch.Tensor) -> None:
    most = unaligned_tile(input)
    height, width = equal_tile(input, most)
    (rows, cols), (out, input, ctype) = input.shape, _bits(out, input)
    large = input.nbytes >= MEDIUM  # then the tiles of a column are neighbours in the grid, as in k05 beyond L2
    kernel = UNALIGNED_TILES[f"transpose<{ctype}, {most[0]}, {most[1]}>"]
    tiles = cdiv(rows, height), cdiv(cols, width)
    launch = kernel[tiles[0] * tiles[1], (WARP, 8)]
    launch(input, cuda.out(out), rows, cols, height, width, tiles[0] if large else tiles[1], large)


def short_sides(out: torch.Tensor, input: torch.Tensor) -> None:
    (rows, cols), (out, input, ctype) = input.shape, _bits(out, input)
    few, length, size = min(rows, cols), max(rows, cols), input.element_size()
    short = out if rows <= cols else input
    bytes = min(PACK, math.gcd(few * size, math.gcd(PACK, short.data_ptr())))
    kernel = SHORT_SIDES[f"transpose<{ctype}, {few}, {'true' if rows <= cols else 'false'}, {bytes}>"]
    kernel[cdiv(length, SHORT_THREADS), SHORT_THREADS](input, cuda.out(out), length)


def _short(input: torch.Tensor) -> str | None:
    few = min(input.shape)
    return f"takes up to {MOST_SHORT} rows or columns, not {tuple(input.shape)}" if few > MOST_SHORT else None


def _fitted_grid(input: torch.Tensor) -> str | None:
    rows, cols = input.shape
    if max(rows, cols) >= 2**31:
        return f"takes up to 2**31 - 1 rows and columns, not {(rows, cols)}"
    blocks = cdiv(rows, _fitted(rows, cols)[0])
    return f"needs {blocks} blocks in y, beyond the {MAX_GRID_Y} of a grid" if blocks > MAX_GRID_Y else None


def _few(input: torch.Tensor) -> str | None:
    few = min(input.shape)
    return f"takes up to {MAX_FEW} rows or up to {MAX_FEW} columns, not {tuple(input.shape)}" if few > MAX_FEW else None


def _grid_y(input: torch.Tensor) -> str | None:
    blocks = cdiv(input.size(0), 32)
    return f"needs {blocks} blocks in y, beyond the {MAX_GRID_Y} of a grid" if blocks > MAX_GRID_Y else None


RUNGS = (
    make_rung(
        HERE,
        "k01_coalesced_reads",
        "consecutive threads read a row of the input",
        _tile_of_32(COALESCED_READS),
        limits=_grid_y,
    ),
    make_rung(
        HERE,
        "k02_coalesced_writes",
        "consecutive threads write a row of the output",
        _tile_of_32(COALESCED_WRITES),
        limits=_grid_y,
    ),
    make_rung(HERE, "k03_shared_tile", "a tile transposed in shared memory", _tile_of_32(SHARED_TILE), limits=_grid_y),
    make_rung(
        HERE, "k04_padded_tile", "padding spreads a column over all banks", _tile_of_32(PADDED_TILE), limits=_grid_y
    ),
    make_rung(HERE, "k05_register_blocks", "16-byte accesses, blocks transposed in registers", register_blocks),
    make_rung(HERE, "k06_triton", "a tile of 64 x 64 in Triton", triton),
    make_rung(HERE, "k07_strips", "strips that hold all of a short side", strips, limits=_few),
    make_rung(
        HERE,
        "k08_fitted_blocks",
        "one element per thread, blocks as narrow as the matrix",
        fitted_blocks,
        limits=_fitted_grid,
    ),
    make_rung(HERE, "k09_unaligned_tiles", "8 to 32 loads in flight, rows of any alignment", unaligned_tiles),
    make_rung(HERE, "k10_short_sides", "a thread moves all of a side of up to 8 elements", short_sides, limits=_short),
)


def default(input: torch.Tensor) -> str | None:
    """PyTorch for one long row or column, which is a plain copy; else a rung by the short side and the size.

    A short side of up to 31 elements: see ``_short_side``. Otherwise k05 if all of these conditions are met, else k09:

    - there are at least as many tiles as SMs;
    - the rows of both matrices are multiples of 16 bytes; from 32 MB on, for more columns than rows of elements of 4 or
      8 bytes, only those of the output must be;
    - the matrix fills its tiles (``fills_tiles``).
    """
    rows, cols = input.shape
    few, size, sms = min(rows, cols), input.element_size(), sm_count(input)
    if few < SMALL_TILE:
        return _short_side(rows, cols, size, rows * cols / (WAVE * sms))
    pack, tile = PACK // size, edge(size)
    packs = rows % pack == 0 and (cols % pack == 0 or size >= WIDE and rows < cols and input.nbytes >= BEYOND_L2)
    whole = packs and fills_tiles(input) and cdiv(rows, tile) * cdiv(cols, tile) >= sms
    return "k05_register_blocks" if whole else "k09_unaligned_tiles"


def _short_side(rows: int, cols: int, size: int, waves: float) -> str | None:
    """The rung for a short side of up to 31 elements. ``waves``: elements of the matrix for each thread of the GPU.

    A short side of one element: k08 up to four waves, else PyTorch. For others the first of these cases that applies:

    - elements of 4 and 8 bytes: k07 above two waves for a short side of 2 to 8 elements except 7, above three quarters
      of a wave for 7 and for 9 to 31 elements; k10 above an eighth of a wave for up to 8 elements; k08;
    - elements of 1 and 2 bytes: k10 above an eighth of a wave for a short side of up to 8 elements, except 5 and 7
      rows; k07 above half a wave for up to 16 elements; k09 above a quarter of a wave for more; k08.
    """
    few = min(rows, cols)
    if few == 1:
        return "k08_fitted_blocks" if waves <= FITTED_WAVES else None
    if size >= WIDE:
        short = few <= MOST_SHORT
        if waves > (SHORT_WAVES if short and few != 7 else LEAST_STRIP_WAVES):
            return "k07_strips"
        return "k10_short_sides" if short and waves > LEAST_SHORT_WAVES else "k08_fitted_blocks"
    if few <= MOST_SHORT and rows not in NARROW_STRIPS and waves > LEAST_SHORT_WAVES:
        return "k10_short_sides"
    if few > NARROW_STRIPS_MOST:
        return "k09_unaligned_tiles" if waves > LEAST_TILE_WAVES else "k08_fitted_blocks"
    return "k07_strips" if waves > LEAST_NARROW_STRIP_WAVES else "k08_fitted_blocks"
