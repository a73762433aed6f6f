"""Blocks of k06, k09 and k11, which sum rows."""

from __future__ import annotations

import torch

from warpwise.device.target import power_of_two
from warpwise.operation import cdiv, sm_count
from warpwise.ops._row_blocks import RowBlocks
from warpwise.ops._short_rows import Team, team

VECTOR = 16  # bytes per load
WARP, BLOCK, MOST_THREADS = 32, 256, 1024  # threads of a warp, of a usual block, and of the largest one
BLOCKS_PER_SM = 8  # blocks of 256 threads that fill the 2048 threads of an SM
BATCH, DEEP_BATCH = 4, 8  # loads in flight of a thread, and of a thread of a longer row
FEWEST_VECTORS = 640  # of a row in full batches
MOST_FULL, MOST_DEEP = 512, 384  # threads of a row that is one batch, and of a longer row, at most
MAX_ROWS_PER_SM = 32  # rows for each SM up to which ``_few_blocks`` applies
MIN_FEW_VECTORS = 600  # 16-byte vectors of a row from which on ``_few_blocks`` applies
FEW_THREADS = {
    DEEP_BATCH: (96, 128, 160, 192, 224, 256, 288, 320, 384, 512), BATCH: (128, 192, 256, 320, 384, 512, 640, 768),
}  # fmt: skip
RESIDENT = {DEEP_BATCH: 1170, BATCH: 1638}  # threads that an SM holds, with 56 and with 40 registers each
FEW_MODEL = RowBlocks(latency=0.3, later=0.5, uneven=1.3, even=0.5)
ALONE = 512, DEEP_BATCH  # threads, and loads in flight, of a block that reads one of at most as many rows as SMs
MIN_ALONE, MAX_ALONE_BYTES = 0.3, 1 << 19  # rows for each SM, at least, and bytes of a row, at most, of such blocks
MOST_ROWS = 64  # rows for each SM up to which batches are full; of more, blocks start while others end
LONG_ROW = 24 * MOST_THREADS  # elements of a row, from which on several blocks may share it
FILL = 768  # threads for each SM, if rows are few: their loads are enough bytes in flight
SHARING_THREADS = 512  # of a block of k09
MOST_SHARED_BATCHES = 3  # of a thread of a block that shares one of a few rows, at most
MOST_MORE, FULL_WAVES = 8, 0.9  # see ``sharing_blocks``
MANY_LANES, SHORT_BLOCKS = 4, 16  # lanes of a row of k11, and its blocks that an SM holds: see ``team_of``


def threads_of(x: torch.Tensor) -> int:
    """Threads per row. A row of up to 128 vectors has at most a warp, each lane with a batch of up to four vectors.

    A team of lanes reads at least 64 bytes at once if the row is long enough. A longer row has a block, whose threads
    read at most eight vectors each, or two if rows are few. If there are up to 64 rows for each SM, the batches are
    full: 1105 vectors are one batch of 288 threads; with 128 threads they are three batches, and only 81 threads load
    in the last one. A row of more than 2048 vectors has batches of eight per thread. For up to 32 rows for each SM see
    ``_few_blocks``.
    """
    rows, columns = x.shape
    vectors = cdiv(columns * x.element_size(), VECTOR)
    if vectors <= WARP * BATCH:
        return max(power_of_two(cdiv(vectors, BATCH)), min(4, power_of_two(vectors)))
    fill = FILL * sm_count(x) // max(rows, 1)
    fewest, most = (1 << (vectors // each).bit_length() - 1 for each in (2 * BATCH, 2))
    filling = min(power_of_two(fill + 1) // 2, most, MOST_THREADS)
    if few := _few_blocks(x):
        return few[0]
    if vectors <= FEWEST_VECTORS or rows > MOST_ROWS * sm_count(x):
        return max(WARP, min(fewest, 2 * BLOCK), filling)
    batch, threads = (BATCH, MOST_FULL) if vectors <= BATCH * MOST_FULL else (DEEP_BATCH, MOST_DEEP)
    return max(filling, WARP * cdiv(vectors, WARP * batch * cdiv(vectors, batch * threads)))


def batch_of(x: torch.Tensor, threads: int) -> int:
    """Vectors of a thread in flight: eight in the batches of ``threads_of`` that would be several of four."""
    if few := _few_blocks(x):
        return few[1]
    vectors = cdiv(x.shape[1] * x.element_size(), VECTOR)
    deep = BATCH * max(threads, MOST_FULL) < vectors and x.shape[0] <= MOST_ROWS * sm_count(x)
    return DEEP_BATCH if deep else BATCH


def _few_blocks(x: torch.Tensor) -> tuple[int, int] | None:
    """Threads, and vectors in flight per thread, for up to 32 long rows for each SM; None for other rows.

    At most one row for each SM, but too many to share a row (``is_shared``): 512 threads. An SM reads up to 50 KB/µs.

    For more rows the least predicted time. The blocks are so few that it depends on how evenly they are distributed
    among the SMs: 462 x 5937 in float32 takes 4.0 µs in blocks of 192 threads, of which an SM holds eight, 5.1 in
    blocks of 256, of which it holds six. The model was fitted to 1000 times of 54 shapes on an H200. There its choices
    take up to 12 % more time than the fastest configuration, 1.4 % on average; for shapes left out of the fit up to
    17 %, 1.7 % on average.
    """
    (rows, columns), size, sms = x.shape, x.element_size(), sm_count(x)
    vectors = cdiv(columns * size, VECTOR)
    if rows <= sms:
        return ALONE if columns > LONG_ROW and not is_shared(rows, columns, size, sms) else None
    if vectors < MIN_FEW_VECTORS or rows > MAX_ROWS_PER_SM * sms:
        return None
    forms = ((threads, batch) for batch, counts in FEW_THREADS.items() for threads in counts)
    return min(
        forms, key=lambda form: FEW_MODEL.predicted_time(rows, vectors, sms, form[0], form[1], RESIDENT[form[1]])
    )


def is_shared(rows: int, columns: int, itemsize: int, sms: int) -> bool:
    """True if several blocks read each row: of more than 24,576 elements, and of more than 512 KB if there are at least
    0.3 rows for each SM.

    An exchange of sums between blocks takes 2 µs, and some SMs have more blocks than others: 120 x 28969 in float32
    takes 8.7 µs in two blocks for each row, 5.1 in one.
    """
    return columns > LONG_ROW and (rows < MIN_ALONE * sms or columns * itemsize > MAX_ALONE_BYTES)


def parts_of(x: torch.Tensor, each: int) -> int:
    """Blocks per row: at least ``each`` elements per block, and about as many blocks as are resident on the GPU."""
    rows, columns = x.shape
    return max(1, min(BLOCKS_PER_SM * sm_count(x) // rows, cdiv(columns, each)))


def vector_parts(x: torch.Tensor) -> int:
    """Blocks of k06 per row."""
    rows, columns = x.shape
    shared = is_shared(rows, columns, x.element_size(), sm_count(x))
    return parts_of(x, each=4 * BLOCK * VECTOR // x.element_size()) if shared else 1


def sharing_blocks(x: torch.Tensor) -> tuple[int, int, int]:
    """Threads of a block of k09, their loads in flight, and blocks per row.

    Blocks of 256 threads for one batch each if an SM then has one at most. Two such blocks for each SM, of up to
    three batches, for fewer than 0.3 rows for each SM: 33 x 121149 in bfloat16 takes 4.9 µs, 5.3 in 512 threads.
    Larger sums have one block of 512 threads for each SM, or two if a thread has several batches. With eight loads
    in flight, 43 to 64 registers, an SM holds just two, so each SM has the same number. With three blocks of 256
    threads for each SM, which holds six, some SMs have more: 20 million float32 elements took 29.0 µs instead of
    21.1. If there are at least 0.3 rows for each SM, a row has up to seven more blocks: the fewest that fill nine
    tenths of their waves, or else those that fill them best.
    """
    (rows, columns), sms = x.shape, sm_count(x)
    vectors = cdiv(columns * x.element_size(), VECTOR)
    if rows * vectors <= sms * BLOCK * BATCH:
        return BLOCK, BATCH, cdiv(vectors, BLOCK * BATCH)
    if 1 < rows < MIN_ALONE * sms:
        parts = 2 * sms // rows
        each = cdiv(vectors, parts)
        if each <= MOST_SHARED_BATCHES * BLOCK * DEEP_BATCH:
            return BLOCK, DEEP_BATCH if each > BLOCK * BATCH else BATCH, parts
    blocks = sms if rows * vectors <= sms * SHARING_THREADS * DEEP_BATCH else 2 * sms
    parts = max(1, min(blocks // rows, cdiv(vectors, SHARING_THREADS)))
    if rows >= MIN_ALONE * sms:
        use = {n: rows * n / (blocks * cdiv(rows * n, blocks)) for n in range(parts, parts + MOST_MORE)}
        parts = next((n for n in use if use[n] >= FULL_WAVES), max(use, key=lambda n: use[n]))
    return SHARING_THREADS, DEEP_BATCH, parts


def team_of(rows: int, columns: int, itemsize: int, sms: int) -> Team:
    """The team of a row of k11. Half of its usual lanes for rows of more than 32 2-byte elements, if the usual blocks
    are more than the SMs hold at once.

    100000 x 48 in bfloat16 takes 4.7 µs with two lanes of 24 elements, 5.3 with four lanes of 16.
    """
    shape, pack = team(columns, itemsize), VECTOR // itemsize
    if shape.lanes < MANY_LANES or shape.grid(rows) <= SHORT_BLOCKS * sms:
        return shape
    lanes = shape.lanes // 2
    return Team(lanes, cdiv(columns, lanes * pack) * pack)
