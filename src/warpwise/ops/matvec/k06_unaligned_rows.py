"""The launcher of k06, and its configurations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv, sm_count
from warpwise.ops.matvec._shared import VECTOR, WARP, config_numbers, row_pitch, sums_of_splits
from warpwise.ops.matvec.k03_rows_together import (
    CONFIGS,
    FORM,
    MOST_THREADS,
    splits_of,
    with_splits,
)
from warpwise.ops.matvec.k04_columns import add_partial_sums

LOADS = ((1, 2), (1, 3), (1, 4), (2, 1), (2, 2), (4, 1))  # rows, and packs of each in flight
RESIDENT = {(2, 1): 1344, (1, 2): 1152}  # threads of an SM; the others have 64 registers each, so 1024
TEAM, FEWEST_THREADS, MOST_BATCHES = 128, 128, 12  # threads of a block of teams; of several batches
MOST_SHARING = 320  # threads with four packs of several rows: larger blocks take turns in an SM
LATENCY, PACK_TIME, X_TIME = 1.7, 0.3, 0.2  # µs of a batch, and of a pack of 1024 threads; of x, in packs
START_TIME, START_THREADS = 0.9e-3, 192  # µs of a block without threads; the threads that double it

UNALIGNED_ROWS = cuda.load(Path(__file__).with_suffix(".cu"))


def launch(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor, config: str | None = None) -> None:
    a, x = a if a.stride(1) == 1 else a.contiguous(), x.contiguous()
    (m, k), pitch, size = a.shape, row_pitch(a), a.element_size()
    threads, rows, unroll, splits = config_numbers("matvec", config or configs(a, x)[0], FORM)
    period = VECTOR // math.gcd(VECTOR, pitch * size)
    teams = TEAM // threads if threads <= WARP else 1
    blocks, batches = cdiv(cdiv(m, period * rows) * period, teams), cdiv(k * size, VECTOR * threads * unroll)
    splits = splits or splits_of(a, blocks * threads * teams, batches, rows)
    sums, workspace = sums_of_splits(y, splits, rows == 1)
    types = f"{cuda.ctype(a.dtype)}, {cuda.ctype(sums.dtype)}"
    kernel = UNALIGNED_ROWS[f"matvec_unaligned_rows<{types}, {threads}, {rows}, {unroll}>"]
    kernel[(blocks, splits), (threads, teams)](cuda.strided(a), x, cuda.out(sums), workspace, m, k, pitch, period)
    add_partial_sums(y, sums)


def configs(a: torch.Tensor, x: torch.Tensor) -> tuple[str, ...]:
    """The configuration of the least predicted time, and others of at least a warp."""
    m, packs, sms = len(a), max(1, cdiv(a.shape[1] * a.element_size(), VECTOR)), sm_count(a)
    best = min(_candidates(packs), key=lambda each: predicted_time(m, packs, sms, *each))
    others = (each for each in CONFIGS if config_numbers("matvec", each, FORM)[0] >= WARP)
    return with_splits(a, tuple(dict.fromkeys(("t{}_r{}_u{}".format(*best), *others))))


def _candidates(packs: int) -> Iterator[tuple[int, int, int]]:
    """Threads, rows and packs in flight of a row: threads that hold a row in equal batches."""
    for rows, unroll in LOADS:
        for batches in range(1, MOST_BATCHES + 1):
            threads = WARP * cdiv(packs, WARP * unroll * batches)
            most = MOST_SHARING if rows > 1 and rows * unroll == 4 else MOST_THREADS
            if threads <= most and (batches == 1 or threads >= FEWEST_THREADS):
                yield threads, rows, unroll
        yield WARP, rows, unroll


def predicted_time(m: int, packs: int, sms: int, threads: int, rows: int, unroll: int) -> float:
    """Microseconds on an H200, fitted to 350 measured times: those of the chosen configurations are within a fourth of
    the best, most within 5 %.

    The blocks of an SM take turns in its ``slots``. Each batch of loads waits for its latency, and 1024 threads need
    0.3 µs for a pack each. The GPU starts no more than one block in about a nanosecond.
    """
    teams = TEAM // threads if threads <= WARP else 1
    each, batches = cdiv(cdiv(m, rows * teams), sms), cdiv(packs, threads * unroll)
    slots = max(1, RESIDENT.get((rows, unroll), 1024) // (threads * teams))
    latency = LATENCY * cdiv(each, slots) * batches
    started = START_TIME * cdiv(m, rows * teams) * (1 + threads * teams / START_THREADS)
    return max(
        started, math.hypot(latency, PACK_TIME * each * threads * teams / 1024 * batches * unroll * (rows + X_TIME))
    )
