"""The launcher of k07, and its configurations."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv, sm_count
from warpwise.ops._configs import config_numbers
from warpwise.ops.matvec._shared import (
    LEAST_USE,
    THREADS,
    VECTOR,
    column_major,
    column_pitch,
    partial_sums,
    parts_that_fill,
)
from warpwise.ops.matvec.k04_columns import add_partial_sums

UNALIGNED_COLUMNS = cuda.load(Path(__file__).with_suffix(".cu"))

FORM = re.compile(r"l(\d+)_u(\d+)")  # lanes in a column, loads in flight
# Lanes along a column. 64 lanes leave four lines of threads, enough for the four alignments of columns of 4-byte
# elements, but not for the eight of 2-byte elements.
LANES = (64, 32, 16, 8)
VALUES = 4  # loads of a thread in flight
DEEP_VALUES = 8  # the same for most matrices: see ``configs``
HUGE = 120 << 20  # bytes of a matrix from which on blocks of PARTED lanes read long pieces of a column
WAVE = 2  # blocks for each SM, at most, if each reads whole columns
FEWEST = 8  # lanes of the narrowest block
MOST_OF_FEWEST = 5  # batches in which such a block reads whole columns, at most
PARTED = 32  # lanes of a block that reads a part of the columns, and of huge matrices
LEAST_ALIGNED = 1 << 24  # bytes of a matrix of aligned columns, at least
RESIDENT = 4  # blocks of 256 threads of an SM
MOST_BATCHES = 2  # of a block, which take less time than a second launch


def launch(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor, config: str | None = None) -> None:
    a, x = column_major(a), x.contiguous()
    (m, k), pitch = a.shape, column_pitch(a)
    lanes, values = config_numbers("matvec", config or configs(a, x)[0], FORM)
    tiles, height, parts = tiling(a, lanes, values)
    share = max(1, cdiv(cdiv(k, parts), height)) * height  # a line has the same alignment in each part
    sums = partial_sums(y, max(1, cdiv(k, share)))
    types = f"{cuda.ctype(a.dtype)}, {cuda.ctype(sums.dtype)}"
    kernel = UNALIGNED_COLUMNS[f"matvec_unaligned_columns<{types}, {lanes}, {THREADS}, {values}>"]
    kernel[(tiles, len(sums)), (lanes, height)](cuda.strided(a), x, cuda.out(sums), m, k, pitch, share)
    add_partial_sums(y, sums)


def tiling(a: torch.Tensor, lanes: int, values: int) -> tuple[int, int, int]:
    """Blocks along a column, lines of threads of a block, and parts of the columns."""
    tiles, height = _tiles(a, lanes), THREADS // lanes
    if values == DEEP_VALUES and _is_wave(a, tiles):
        return tiles, height, 1
    batches = cdiv(a.shape[1], height * values)
    most = 1 if batches <= MOST_BATCHES else batches if tiles < sm_count(a) else batches // 2
    return tiles, height, min(parts_that_fill(a, tiles, RESIDENT), most)


def _tiles(a: torch.Tensor, lanes: int) -> int:
    return cdiv(a.shape[0], (lanes - 1) * (VECTOR // a.element_size()))


def _is_wave(a: torch.Tensor, tiles: int) -> bool:
    """True for one block on each SM, or two on some or all."""
    return sm_count(a) < tiles <= WAVE * sm_count(a)


def is_for_aligned(a: torch.Tensor) -> bool:
    """True for aligned columns of 16 to 120 MB that one or two blocks of at least 32 lanes on each SM read.

    25348 x 292 in float32 takes 9.0 µs in 205 blocks of 32 lanes, 11.4 in k04's 793 blocks of 8.
    """
    nbytes, rows = a.shape[0] * a.shape[1] * a.element_size(), VECTOR // a.element_size()
    counts = [count for count in LANES if PARTED <= count <= THREADS // rows]
    wave = any(_is_wave(a, _tiles(a, count)) and a.shape[1] >= 2 * THREADS // count for count in counts)
    return wave and LEAST_ALIGNED <= nbytes < HUGE


def configs(a: torch.Tensor, x: torch.Tensor) -> tuple[str, ...]:
    """Eight loads in flight, with the lanes of ``_deep_lanes``; of huge matrices 32 lanes, if they fill the GPU
    without parts, or else four loads in the following order.

    The most lanes, but not many more than rows, with which one launch reads all columns; of many blocks, which may have
    many batches, those that read longer pieces of a column. 131017 x 408 in float32 takes 51.9 µs with 32 lanes, 61.9
    with 8.
    """
    rows, most = VECTOR // a.element_size(), 2 * MOST_BATCHES * VALUES * THREADS
    counts = [count for count in LANES if THREADS // count >= rows]
    lanes = next((count for count in reversed(counts) if _tiles(a, count) <= 1), counts[0])
    split = {count: tiling(a, count, VALUES)[2] > 1 or a.shape[1] * count > most for count in counts}
    order = sorted(counts, key=lambda count: (count > lanes, split[count], -count))
    found = tuple(f"l{count}_u{VALUES}" for count in order)
    huge, of_an_sm = a.shape[0] * a.shape[1] * a.element_size() >= HUGE, _tiles(a, PARTED) / sm_count(a)
    if huge and not LEAST_USE <= of_an_sm / WAVE <= 1 and of_an_sm < LEAST_USE * RESIDENT:
        return found
    return (f"l{PARTED if huge else _deep_lanes(a, counts)}_u{DEEP_VALUES}", *found)


def _deep_lanes(a: torch.Tensor, counts: list[int]) -> int:
    """Lanes of a block with eight loads of a thread in flight.

    If one or two blocks on each SM can read whole columns, their lanes: 19433 x 319 in float32 takes 8.3 µs in 157
    blocks of 32 lanes, 10.5 in 78 tiles of 64 lanes and 6 parts. Otherwise those that read all columns in one batch, if
    there is a block for two SMs: 80001 x 100 takes 9.9 with 16 lanes, 10.3 with 32. Otherwise 8 lanes if the columns
    are two batches, else 32 lanes and parts: 2001 x 500 takes 3.6 with 8, 4.2 with 32; 1001 x 2001 takes 5.6 and 5.2.
    """
    k, sms, tiles = a.shape[1], sm_count(a), {count: _tiles(a, count) for count in counts}
    batches = cdiv(k, THREADS // FEWEST * DEEP_VALUES)  # of a block of FEWEST lanes
    wave = next((count for count in counts if _is_wave(a, tiles[count])), None)
    if wave and k >= 2 * THREADS // wave and (wave > FEWEST or batches <= MOST_OF_FEWEST):
        return wave
    many = tiles[counts[0]] > WAVE * sms
    one = next((each for each in counts if k <= THREADS // each * DEEP_VALUES and 2 * tiles[each] >= sms), None)
    if one and not (many and one == FEWEST):
        return one
    if 2 * tiles[FEWEST] > sms and batches <= MOST_BATCHES and not many:
        return FEWEST
    return next((count for count in reversed(counts) if tiles[count] <= 1), PARTED)
