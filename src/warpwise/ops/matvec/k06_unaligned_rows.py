"""The launcher of k06, and its configurations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv, sm_count
from warpwise.ops._configs import config_numbers
from warpwise.ops._row_blocks import RowBlocks
from warpwise.ops.matvec._shared import THREADS, VECTOR, WARP, row_pitch, sums_of_splits
from warpwise.ops.matvec.k03_rows_together import (
    CONFIGS,
    FEW_ROWS,
    FORM,
    LONG_FEW,
    MOST_THREADS,
    splits_of,
)
from warpwise.ops.matvec.k04_columns import add_partial_sums

LOADS = ((1, 2), (1, 3), (1, 4), (2, 1), (2, 2), (4, 1))  # rows, and packs of each in flight
RESIDENT = {(2, 1): 1344, (1, 2): 1152}  # threads of an SM; the others have 64 registers each, so 1024
LONG_ROW = 4096  # packs of a row that several blocks share if there are few rows
TEAM = 128  # threads of a block of several teams
FEWEST_THREADS, MOST_BATCHES = 128, 12  # of a block that reads a row in several batches
MOST_SHARING = 320  # threads with four packs of several rows in flight: larger blocks take turns in an SM
LATENCY = 1.7  # µs of a batch of loads
PACK_TIME = 0.3  # µs in which an SM loads a pack for each of 1024 threads
X_TIME = 0.2  # time of the loads of x for a pack, in units of PACK_TIME
START_TIME = 0.9e-3  # µs until the next block starts, for a block of few threads
START_THREADS = 192  # threads of a block that double START_TIME
STREAMED = 1 << 25  # bytes of a matrix whose blocks read several batches, also if they could hold a row in one
HUGE = 100 << 20  # bytes of a huge matrix
MANY_ROWS, MANY_PACKS = 1024, 1024  # rows, and packs of a row, of a huge matrix that is read in ``_full_batches``
HUGE_THREADS = 384, 256, 192  # of which each has two packs of two rows in flight
TEAM_PACKS = (64, 256)  # packs of a row of a huge matrix, at least and at most, for ``_one_or_two_batches``
MOST_ONE_BATCH = 160  # threads that read a row in one batch, at most
FULL_BATCH = 0.91  # minimum fraction of these threads that load
EVEN_USE = 0.8  # minimum fraction of the blocks of 256 threads of all SMs that a matrix fills
SLOTS = 4  # blocks of 256 threads that an SM holds
# For ``_few_long_rows`` and ``_long_rows``: rows for each SM, and the fewest packs of a row
FEW_ROWS_PER_SM, MIN_FEW_PACKS = (1, 10), 700
ROWS_PER_SM, MIN_PACKS = (2, 34), 500
MAX_LONG_BYTES = 256 << 20  # of a matrix, for ``_long_rows``
FEW_MODEL = RowBlocks(latency=0.6, later=0.6, uneven=1.0)
LONG_MODEL = RowBlocks(latency=1.3, later=0.8, uneven=1.15, even=0.5)
LONG_THREADS = 64, 96, 128, 160, 192, 256, 320  # of a block of two rows, for ``_long_rows``
RESIDENT_THREADS = {(1, 4): 1024, (1, 2): 1152, (2, 2): 1152}  # threads that an SM holds, by rows and packs in flight
ROW_THREADS = 64, 96, 128, 160, 192, 224, 256, 288, 320, 384, 448, 512, 640, 768, 896, 1024  # of a block
MAX_BATCH = 1.3  # packs of a batch of a block, at most, relative to those of a row
SPILLED = "t128_r4_u2", "t128_r8_u1"  # configurations whose registers spill here, for the words around a pack
X_TRAFFIC = 0.6  # time of the loads of x, relative to those of a row of the matrix

UNALIGNED_ROWS = cuda.load(Path(__file__).with_suffix(".cu"))


def launch(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor, config: str | None = None) -> None:
    a, x = a if a.stride(1) == 1 else a.contiguous(), x.contiguous()
    m, k = a.shape
    threads, rows, unroll = config_numbers("matvec", config or configs(a, x)[0], FORM)
    blocks, period, splits = _grid(a, threads, rows, unroll)
    teams = TEAM // threads if threads <= WARP else 1
    sums, workspace = sums_of_splits(y, splits, rows == 1)
    types = f"{cuda.ctype(a.dtype)}, {cuda.ctype(sums.dtype)}"
    kernel = UNALIGNED_ROWS[f"matvec_unaligned_rows<{types}, {threads}, {rows}, {unroll}>"]
    kernel[(blocks, splits), (threads, teams)](
        cuda.strided(a), x, cuda.out(sums), workspace, m, k, row_pitch(a), period
    )
    add_partial_sums(y, sums)


def configs(a: torch.Tensor, x: torch.Tensor) -> tuple[str, ...]:
    """The configuration of the least predicted time, and others of at least a warp.

    Large blocks with a batch of a row each start and end together. For a large matrix, which the SMs read all the time,
    blocks of 256 threads that fill the SMs evenly, or else of two warps, are faster; for 100 MB and many rows,
    ``_full_batches`` or, of short rows, ``_one_or_two_batches``; for 1 to 34 long rows for each SM
    ``_few_long_rows`` or ``_long_rows``. Of fewer long rows than half the SMs several blocks share each: 28 x 71867 in
    float32 takes 4.9 µs in blocks of 256 threads, 6.8 in blocks of 928.
    """
    m, packs, sms = len(a), max(1, cdiv(a.shape[1] * a.element_size(), VECTOR)), sm_count(a)
    best = min(_candidates(packs), key=lambda each: predicted_time(m, packs, sms, *each))
    if m < FEW_ROWS and packs >= LONG_FEW:
        best = (TEAM, 1, 2)
    elif 2 * m <= sms and packs >= LONG_ROW:
        best = (THREADS, 1, 4)
    nbytes = m * packs * VECTOR
    if _between(m / sms, FEW_ROWS_PER_SM) and packs >= MIN_FEW_PACKS and nbytes < STREAMED:
        best = _few_long_rows(m, packs, sms)
    elif _between(m / sms, ROWS_PER_SM) and packs >= MIN_PACKS and nbytes <= MAX_LONG_BYTES:
        best = _long_rows(m, packs, sms)
    elif nbytes >= HUGE and m >= MANY_ROWS and packs >= MANY_PACKS:
        best = (_full_batches(packs), 2, 2)
    elif nbytes >= HUGE and TEAM_PACKS[0] <= packs <= TEAM_PACKS[1]:
        best = (_one_or_two_batches(packs), 4, 1)
    elif best[0] > MOST_SHARING and best[1] == 1 and nbytes >= STREAMED:
        blocks, _, splits = _grid(a, THREADS, 2, 2)
        slots = sms if blocks * splits <= SLOTS * sms else SLOTS * sms  # of a wave, if the blocks are not all resident
        use = blocks * splits / (slots * cdiv(blocks * splits, slots))
        best = (THREADS, 2, 2) if use >= EVEN_USE else (2 * WARP, 4, 1)
    others = (each for each in CONFIGS if config_numbers("matvec", each, FORM)[0] >= WARP and each not in SPILLED)
    return tuple(dict.fromkeys(("t{}_r{}_u{}".format(*best), *others)))


def _grid(a: torch.Tensor, threads: int, rows: int, unroll: int) -> tuple[int, int, int]:
    """Blocks, rows from one to the next of the same alignment, and splits of a row."""
    size, teams = a.element_size(), TEAM // threads if threads <= WARP else 1
    period = VECTOR // math.gcd(VECTOR, row_pitch(a) * size)
    blocks = cdiv(cdiv(len(a), period * rows) * period, teams)
    batches = cdiv(a.shape[1] * size, VECTOR * threads * unroll)
    return blocks, period, splits_of(a, blocks * threads * teams, batches, rows)


def _few_long_rows(m: int, packs: int, sms: int) -> tuple[int, int, int]:
    """Threads, rows and packs in flight of the least predicted time, for 1 to 10 long rows for each SM, up to 32 MB.

    526 x 13437 in float32 takes 8.9 µs with 288 threads for two rows, 13.2 with 864 for one. The model was fitted to 24
    shapes of 4 to 32 MB on an H200. There its choices take up to 13 % more time than the fastest configuration, 3 % on
    average; for shapes left out of the fit up to 28 %, 6 % on average.
    """
    forms = (
        (threads, rows, unroll)
        for rows, unroll in RESIDENT_THREADS
        for threads in ROW_THREADS
        if rows == 1 or threads <= MOST_SHARING
    )

    def time(form: tuple[int, int, int]) -> float:
        threads, rows, unroll = form
        resident = RESIDENT_THREADS[rows, unroll]
        return FEW_MODEL.predicted_time(cdiv(m, rows), packs, sms, threads, unroll, resident, rows + X_TRAFFIC)

    return min((form for form in forms if form[0] * form[2] <= MAX_BATCH * packs), key=time)


def _long_rows(m: int, packs: int, sms: int) -> tuple[int, int, int]:
    """The same for 2 to 34 rows for each SM, up to 256 MB, in blocks of two rows.

    679 x 58859 in float32 takes 40 µs with 128 threads for two rows, of which an SM holds nine blocks; 49 with 256, of
    which it holds four, because some SMs have two of these blocks and others four. The model was fitted to 59 shapes of
    4 to 240 MB on an H200. There its choices take up to 19 % more time than the fastest number of threads, 1.3 % on
    average, also for shapes left out of the fit.
    """
    two = RESIDENT_THREADS[2, 2]
    forms = ((threads, 2, 2) for threads in LONG_THREADS)
    return min(forms, key=lambda form: LONG_MODEL.time_in_turns(cdiv(m, 2), packs, sms, form[0], 2, two, 2 + X_TRAFFIC))


def _between(value: float, limits: tuple[int, int]) -> bool:
    return limits[0] <= value <= limits[1]


def _full_batches(packs: int) -> int:
    """The most threads whose batches are about as full as those of others, of two packs of two rows each.

    20000 x 9001 in bfloat16 takes 82.7 µs with 192 threads in 2.9 batches, 96.5 with 256 in 2.2.
    """
    batches = {threads: packs / (2 * threads) for threads in HUGE_THREADS}
    use = {threads: of / math.ceil(of) for threads, of in batches.items()}
    return next(threads for threads in HUGE_THREADS if use[threads] >= max(use.values()) - 0.05)


def _one_or_two_batches(packs: int) -> int:
    """The threads of one full batch of up to 160 packs of each of four rows, else of two.

    100000 x 401 in float32 takes 39.7 µs in two batches of 64 threads, 41.3 in one of 128, a fifth of which is empty.
    """
    one = WARP * cdiv(packs, WARP)
    return one if one <= MOST_ONE_BATCH and packs >= FULL_BATCH * one else WARP * cdiv(packs, 2 * WARP)


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
    0.3 µs for a pack each. The GPU starts a block of 64 threads in 1.2 ns, of 256 in 2.1.
    """
    teams = TEAM // threads if threads <= WARP else 1
    each, batches = cdiv(cdiv(m, rows * teams), sms), cdiv(packs, threads * unroll)
    slots = max(1, RESIDENT.get((rows, unroll), 1024) // (threads * teams))
    latency = LATENCY * cdiv(each, slots) * batches
    packs_of_sm = each * threads * teams / 1024 * batches * unroll * (rows + X_TIME)
    started = START_TIME * cdiv(m, rows * teams) * (1 + threads * teams / START_THREADS)
    return max(started, math.hypot(latency, PACK_TIME * packs_of_sm))
