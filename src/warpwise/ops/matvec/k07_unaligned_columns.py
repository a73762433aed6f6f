"""The launcher of k07, and its configurations."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv, sm_count
from warpwise.ops._configs import config_numbers
from warpwise.ops.matvec._shared import THREADS, VECTOR, partial_sums, parts_that_fill
from warpwise.ops.matvec.k04_columns import add_partial_sums

UNALIGNED_COLUMNS = cuda.load(Path(__file__).with_suffix(".cu"))

FORM = re.compile(r"l(\d+)_u(\d+)")  # lanes in a column, loads in flight
LANES, VALUES = (64, 32, 16, 8), 4  # 64 lanes, 4 lines of threads, for 4-byte elements only: 4 alignments
RESIDENT = 4  # blocks of 256 threads of an SM
MOST_BATCHES = 2  # of a block, which take less time than a second launch


def launch(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor, config: str | None = None) -> None:
    a, x = a if a.stride(0) == 1 else a.t().contiguous().t(), x.contiguous()
    m, k = a.shape
    pitch = a.stride(1) if a.stride(0) == 1 else m
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
    tiles, height = cdiv(a.shape[0], (lanes - 1) * (VECTOR // a.element_size())), THREADS // lanes
    batches = cdiv(a.shape[1], height * values)
    most = 1 if batches <= MOST_BATCHES else batches if tiles < sm_count(a) else batches // 2
    return tiles, height, min(parts_that_fill(a, tiles, RESIDENT), most)


def configs(a: torch.Tensor, x: torch.Tensor) -> tuple[str, ...]:
    """The most lanes, but not many more than rows, with which one launch reads all columns; then others.

    One launch of many blocks may have many batches; more lanes then read longer pieces of a column.
    """
    rows, most = VECTOR // a.element_size(), 2 * MOST_BATCHES * VALUES * THREADS
    counts = [count for count in LANES if THREADS // count >= rows]
    lanes = next((count for count in reversed(counts) if (count - 1) * rows >= a.shape[0]), counts[0])
    split = {count: tiling(a, count, VALUES)[2] > 1 or a.shape[1] * count > most for count in counts}
    order = sorted(counts, key=lambda count: (count > lanes, split[count], -count))
    return tuple(f"l{count}_u{VALUES}" for count in order)
