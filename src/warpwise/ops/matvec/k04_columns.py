"""The launcher of k04, and its configurations."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import torch

from warpwise import cuda
from warpwise.device.target import power_of_two
from warpwise.operation import cdiv, sm_count
from warpwise.ops._configs import config_numbers
from warpwise.ops.matvec._shared import (
    MOST_PACKETS,
    THREADS,
    VECTOR,
    WARP,
    column_load_bytes,
    column_major,
    column_pitch,
    parts_that_fill,
    sums_of_splits,
)

COLUMNS = cuda.load(Path(__file__).with_suffix(".cu"))

FORM = re.compile(r"l(\d+)_u(\d+)")  # lanes in a column, loads in flight
MOST_THREADS = 1024
RESIDENT = 4  # blocks of 256 threads that an SM holds
RESIDENT_NARROW = 6  # the same for loads of up to 4 bytes
# Batches of a block of 1024 threads that reads whole columns, at most: a second launch takes as long as four. With
# loads of up to 4 bytes it is one batch.
MOST_BATCHES = 4
SECTOR = 32  # bytes of a column that a block reads, at least, if the matrix has less than MEDIUM bytes,
LINE = 128  # less than LARGE bytes,
LINES = 512  # or more
MOST_TAKEN = 8  # sums of other parts that a thread adds, all at once
FEW_COLUMNS = 8  # that a thread has in flight
FEW_LANES = 8  # of a matrix of less than MEDIUM bytes, so that more blocks read it
MEDIUM, LARGE = 1 << 20, 1 << 26  # bytes of a matrix
FEWEST_COLUMNS = 2048  # from which on ``_one_batch`` applies
SHORT_COLUMN = 64  # loads of a column up to which ``_one_batch`` applies
VERY_SHORT_COLUMN = 4  # loads of a column up to which ``_one_batch`` has so few blocks that one launch adds their sums
ONE_BATCH = 2  # blocks for each SM in ``_one_batch``, unless they need more than 16 loads in flight


class Geometry(NamedTuple):
    """``lanes`` along a column, ``values`` loads in flight per thread."""

    lanes: int
    values: int


def launch(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor, config: str | None = None) -> None:
    a, x = column_major(a), x.contiguous()
    shape = Geometry(*config_numbers("matvec", config, FORM)) if config else _geometry(a)
    k, (tiles, bytes_a_load) = a.shape[1], _tiles(a, shape)
    threads = shape.lanes if k <= shape.values and shape.lanes >= WARP else THREADS
    batches = cdiv(k * shape.lanes, shape.values * THREADS)
    few, fewer = tiles < sm_count(a), min(4, shape.values) if bytes_a_load == VECTOR else shape.values  # 64 registers
    most = MOST_BATCHES if bytes_a_load > 4 else 1
    if few and 1 < batches <= MOST_TAKEN + 1 and len(y) * batches <= MOST_PACKETS:
        parts = batches
    elif few and batches > 1 and cdiv(k * shape.lanes, fewer * MOST_THREADS) <= most:
        threads, parts, shape = MOST_THREADS, 1, shape._replace(values=fewer)
    else:
        resident = RESIDENT if bytes_a_load > 4 else RESIDENT_NARROW
        parts = max(1, min(parts_that_fill(a, tiles, resident), batches if few else batches // 2))
    share = max(1, cdiv(k, parts))
    parts = max(1, cdiv(k, share))
    sums, workspace = sums_of_splits(y, parts, parts <= MOST_TAKEN + 1)
    _launch(sums, workspace, a, x, shape, threads, share)
    add_partial_sums(y, sums)


def add_partial_sums(y: torch.Tensor, sums: torch.Tensor) -> None:
    """Add ``sums`` (splits, m) into ``y`` in order, as a product with ones."""
    if len(sums) > 1:
        _launch(y.view(1, -1), None, sums.t(), None, _geometry(sums.t()), THREADS, len(sums))


def _launch(
    sums: torch.Tensor, workspace: torch.Tensor | None, a: torch.Tensor, x: torch.Tensor | None, shape: Geometry,
    threads: int, share: int,
) -> None:  # fmt: skip
    (m, k), (tiles, bytes_a_load) = a.shape, _tiles(a, shape)
    types = f"{cuda.ctype(a.dtype)}, {cuda.ctype(sums.dtype)}"
    kernel = COLUMNS[f"matvec_columns<{types}, {bytes_a_load}, {threads}, {shape.values}>"]
    grid, block = (tiles, max(1, cdiv(k, share))), (shape.lanes, threads // shape.lanes)
    kernel[grid, block](cuda.strided(a), x, cuda.out(sums), workspace, m, k, column_pitch(a), share)


def _tiles(a: torch.Tensor, shape: Geometry) -> tuple[int, int]:
    """Blocks along a column, and the bytes of a load."""
    bytes_a_load = column_load_bytes(a)
    return cdiv(a.shape[0] * a.element_size(), shape.lanes * bytes_a_load), bytes_a_load


def _geometry(a: torch.Tensor) -> Geometry:
    """The most lanes for which a thread loads its columns in one batch, at least a sector or line of memory; at most a
    warp if there are fewer tiles than SMs."""
    (m, k), bytes_a_load, size = a.shape, column_load_bytes(a), a.shape[0] * a.shape[1] * a.element_size()
    if k <= FEW_COLUMNS:  # one line of threads: no pass through shared memory
        lanes = THREADS
        while lanes > WARP and _tiles(a, Geometry(lanes, 1))[0] < sm_count(a):
            lanes //= 2
        return Geometry(lanes, max(4, power_of_two(k)))
    column = cdiv(m * a.element_size(), bytes_a_load)  # loads
    if k >= FEWEST_COLUMNS and column <= SHORT_COLUMN and (one := _one_batch(column, k, sm_count(a))):
        return one
    most = 16 if bytes_a_load <= 4 and size >= MEDIUM or k <= 16 else 8
    least = (SECTOR if size < MEDIUM else LINE if size < LARGE else LINES) // bytes_a_load
    least = min(least, FEW_LANES) if size < MEDIUM else least
    lanes = max(THREADS // min(THREADS, power_of_two(cdiv(k, most))), least)
    lanes = min(lanes, THREADS, power_of_two(column))
    while lanes > WARP and _tiles(a, Geometry(lanes, most))[0] < sm_count(a):
        lanes //= 2
    batch = cdiv(k, THREADS // lanes)  # loads of a thread, if all are in flight
    return Geometry(lanes, min(most, max(4, power_of_two(batch))))


def _one_batch(column: int, k: int, sms: int) -> Geometry | None:
    """Up to eight lanes, and the fewest loads in flight with which two blocks on each SM read all columns in one batch.

    For columns of up to four loads, the fewest with which at most nine blocks read them, whose sums one launch adds.
    None if 16 loads in flight need more blocks than the GPU holds.

    33 x 43166 in bfloat16 takes 5.6 µs in 425 blocks of 8 lanes with 16 loads, 7.0 in blocks of several batches; 40 x
    9001 takes 3.3 in 71 blocks with four loads, 4.5 in one block. 2 x 11796 in float32 takes 2.5 in six blocks with
    eight loads, 3.3 in one block of 1024 threads.
    """
    lanes = min(FEW_LANES, power_of_two(column))
    batches = {values: cdiv(k * lanes, values * THREADS) for values in (4, 8, 16)}
    one_launch = [values for values in batches if batches[values] <= MOST_TAKEN + 1]
    if column <= VERY_SHORT_COLUMN and one_launch:
        return Geometry(lanes, one_launch[0])
    blocks = {values: cdiv(column, lanes) * batches[values] for values in batches}
    values = next((each for each in blocks if blocks[each] <= ONE_BATCH * sms), 16)
    return Geometry(lanes, values) if blocks[values] <= RESIDENT_NARROW * sms else None


def configs(a: torch.Tensor, x: torch.Tensor) -> tuple[str, ...]:
    """The rule's configuration, and others with different numbers of lanes."""
    lanes, values = _geometry(a)
    found = (lanes, max(1, lanes // 2), max(1, lanes // 4), min(32, 2 * lanes))
    return tuple(f"l{count}_u{values}" for count in dict.fromkeys(found))
