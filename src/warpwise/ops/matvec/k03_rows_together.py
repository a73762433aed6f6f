"""The launcher of k03, and its configurations."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv, sm_count
from warpwise.ops._configs import config_numbers
from warpwise.ops._row_blocks import RowBlocks
from warpwise.ops.matvec._shared import (
    MOST_PACKETS,
    VECTOR,
    WARP,
    load_bytes,
    row_pitch,
    sums_of_splits,
)
from warpwise.ops.matvec.k04_columns import add_partial_sums

ROWS_TOGETHER = cuda.load(Path(__file__).with_suffix(".cu"))

FORM = re.compile(r"t(\d+)_r(\d+)_u(\d+)")  # threads per team, rows per team, 16-byte loads of a row in flight
NARROW = 4  # bytes: as many loads in flight of 2 bytes as of 4
FILL = 1024  # threads of an SM
MOST_THREADS = 1024
LONG_LOADS = 480  # loads of a row from which on it has a block of its own
ROW_LOADS = 4  # loads in flight of a thread of that block
ROW_THREADS = 64, 96, 128, 192, 256, 320, 384, 512, 768, 1024  # threads of that block
RESIDENT = 1170  # threads of an SM, of 56 registers each
MODEL = RowBlocks(latency=1.3, later=0.27, uneven=1.3)
SM_RATE = 30e3  # bytes/µs that one SM reads
GPU_RATE = 4.2e6  # bytes/µs that all SMs read together
EXCHANGE_TIME = 2.0  # µs of an exchange of sums between blocks
# Loads of a row: several blocks share a longer one if there are 1 to 1.75 rows for each SM.
SHARED_LOADS, MOST_SHARED_ROWS = 1 << 14, 1.75
# Threads of a block of a long row, of which an SM holds as many as it has rows (or half of 7 or 8 rows), by the bytes
# of a load; and the least bytes of such a row.
WAVE_THREADS = {VECTOR: {4: 320, 7: 320, 8: 320}, VECTOR // 2: {3: 384, 4: 320, 5: 256}}
MIN_WAVE_BYTES = {3: 8 << 10, 4: 20 << 10, 5: 20 << 10, 7: 48 << 10, 8: 48 << 10}
MANY_ROWS, MANY_BYTES = 100, (1 << 10, 6 << 10)  # see ``many_rows``
FEW_ROWS, LONG_FEW = 16, 2500  # blocks of 128 threads share each of fewer than 16 rows of at least 2500 loads
# Blocks of 64 threads that an SM holds. The GPU starts further ones only every 1.2 ns, so a matrix that needs more has
# blocks of four warps, each of which computes four rows.
SLOTS = 32
FEWEST_BATCHES = 2  # of a thread in a split row; one if the row has twice as many and one launch adds the sums
CONFIGS = ("t128_r4_u2", "t128_r2_u2", "t128_r8_u1", "t32_r2_u2", "t32_r1_u4", "t256_r2_u2", "t256_r1_u4")


def launch(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor, config: str | None = None) -> None:
    a, x = a if a.stride(1) == 1 else a.contiguous(), x.contiguous()
    (m, k), pitch, size = a.shape, row_pitch(a), a.element_size()
    bytes_a_load = load_bytes(size, a.data_ptr(), x.data_ptr(), pitch * size)
    threads, rows, vectors = config_numbers("matvec", config or configs(a, x)[0], FORM)
    unroll = vectors * VECTOR // max(bytes_a_load, NARROW)
    teams = 128 // threads if threads <= WARP else 1
    blocks, batches = cdiv(m, teams * rows), cdiv(k * size, bytes_a_load * threads * unroll)
    splits = splits_of(a, blocks * threads * teams, batches, rows)
    sums, workspace = sums_of_splits(y, splits, rows == 1)
    types = f"{cuda.ctype(a.dtype)}, {cuda.ctype(sums.dtype)}"
    kernel = ROWS_TOGETHER[f"matvec_rows_together<{types}, {bytes_a_load}, {threads}, {rows}, {unroll}>"]
    kernel[(blocks, splits), (threads, teams)](cuda.strided(a), x, cuda.out(sums), workspace, m, k, pitch)
    add_partial_sums(y, sums)


def splits_of(a: torch.Tensor, threads: int, batches: int, rows: int) -> int:
    """Splits that fill the GPU, if one has ``threads`` in all; of few batches, a row is not worth an exchange."""
    together = rows == 1 and batches >= 2 * FEWEST_BATCHES and len(a) * batches <= MOST_PACKETS
    return max(1, min(FILL * sm_count(a) // max(1, threads), batches if together else batches // FEWEST_BATCHES))


def configs(a: torch.Tensor, x: torch.Tensor) -> tuple[str, ...]:
    """The rule's configuration, and others."""
    size = a.element_size()
    return geometries(a, load_bytes(size, a.data_ptr(), x.data_ptr(), row_pitch(a) * size))


def geometries(a: torch.Tensor, bytes_a_load: int) -> tuple[str, ...]:
    """The rule's configuration for loads of ``bytes_a_load``, and others."""
    return tuple(dict.fromkeys((_geometry(a, bytes_a_load), *CONFIGS)))


def whole_wave(a: torch.Tensor, bytes_a_load: int) -> str | None:
    """The configuration of a few long rows for each SM whose blocks are all that the SMs hold at once; None for others.

    Then no SM can have more blocks than another: 347 x 16178 in float32, 2.6 rows for each SM, takes 7.5 µs in blocks
    of 384 threads, of which an SM holds three, 8.5 in blocks of 256. At 17 measured shapes this is within 9 % of the
    fastest configuration, on average within 1.4 %.
    """
    each, nbytes = cdiv(len(a), sm_count(a)), a.shape[1] * a.element_size()
    threads = WAVE_THREADS.get(bytes_a_load, {}).get(each)
    return f"t{threads}_r1_u2" if threads and nbytes >= MIN_WAVE_BYTES[each] else None


def many_rows(a: torch.Tensor, bytes_a_load: int) -> str | None:
    """The configuration of at least 100 rows of 1 to 6 KB for each SM, with loads of 8 bytes; None for others.

    44591 x 2428 in bfloat16 takes 52.4 µs in blocks of eight rows, which share the loads of x, 59.3 by k06. At 7
    measured shapes this is within 6 % of the fastest configuration, on average within 1 %.
    """
    least, most = MANY_BYTES
    fits = least <= a.shape[1] * a.element_size() <= most and len(a) >= MANY_ROWS * sm_count(a)
    return "t128_r8_u1" if fits and bytes_a_load == VECTOR // 2 else None


def measured_geometry(a: torch.Tensor, bytes_a_load: int) -> str | None:
    """The configuration of the matrices for which ``whole_wave`` or ``many_rows`` names one; None for others."""
    return whole_wave(a, bytes_a_load) or many_rows(a, bytes_a_load)


def _geometry(a: torch.Tensor, bytes_a_load: int) -> str:
    """Teams that load a row in one batch if it is short; larger ones, and fewer rows each, if there are few rows.

    A thread issues all loads of a batch, also those past the end of its row, so a batch of narrow loads is short: four
    of up to 4 bytes of each row, and up to four rows if their blocks fill the GPU. A row of two warps has one, with
    eight loads, if the blocks would be more than the GPU holds. A team of up to 256 threads that loads a row in one
    batch of two loads each has four rows if there is then a block for two SMs: 1432 x 576 in float32 takes 2.5 µs, and
    3.2 in a block for each row. A longer row has a block: see ``threads_of_row``. Several blocks share each of fewer
    than 16 long rows, and each of more rows if ``is_shared``. A few long rows for each SM: see ``whole_wave``;
    many rows: ``many_rows``.
    """
    (m, k), size, sms = a.shape, a.element_size(), sm_count(a)
    loads, fill = cdiv(k * size, bytes_a_load), FILL * sms
    if config := measured_geometry(a, bytes_a_load):
        return config
    if bytes_a_load < VECTOR:
        unroll = VECTOR // max(bytes_a_load, NARROW)
        threads = fitting(loads, unroll, 256)
        if threads == 2 * WARP and cdiv(m, 4) > SLOTS * sms:
            return f"t{WARP}_r4_u2"
        while threads < MOST_THREADS and threads * unroll < loads and threads * m < fill // 4:
            threads *= 2
        return f"t{threads}_r{rows_a_team(m, threads, sms)}_u1"
    if m < FEW_ROWS and loads >= LONG_FEW:
        return "t128_r1_u2"
    if is_shared(m, k * size, loads, sms):
        return "t192_r1_u4"
    if loads >= LONG_LOADS:
        return f"t{threads_of_row(m, loads, sms)}_r1_u4"
    threads = fitting(loads, 2, 256)
    if 2 * WARP <= threads < loads and 2 * cdiv(m, 4) >= sms:  # one batch, of eight loads a thread
        return f"t{threads}_r4_u2"
    while threads < MOST_THREADS and threads < loads and threads * m < fill:
        threads *= 2
    rows, fill = 4, fill if threads >= 128 else fill // 4
    while rows > 1 and cdiv(m, rows) * threads < fill:
        rows //= 2
    return f"t{threads}_r{rows}_u{1 if threads >= loads else 2}"


def is_shared(m: int, nbytes: int, loads: int, sms: int) -> bool:
    """True if several blocks read each of ``m`` long rows of ``nbytes`` in less time than a block for each row.

    On an H200 the SMs read 4.2 MB/µs together and one reads 30 KB/µs; an exchange of sums takes 2 µs. At 18 measured
    shapes of up to 132 rows this is the faster choice, or within 1 % of it.
    """
    if m > sms:
        return m <= MOST_SHARED_ROWS * sms and loads > SHARED_LOADS
    return nbytes / SM_RATE > EXCHANGE_TIME + m * nbytes / GPU_RATE


def threads_of_row(m: int, loads: int, sms: int) -> int:
    """Threads of the least predicted time for rows of at least 480 loads, four of a thread in flight.

    The model is fitted to 400 times of 51 shapes of 0.8 to 640 MB on an H200, of which the choices are within 2 % of
    the fastest on average, and within 15 %.
    """
    return min(ROW_THREADS, key=lambda each: MODEL.predicted_time(m, loads, sms, each, ROW_LOADS, RESIDENT))


def fitting(loads: int, unroll: int, most: int) -> int:
    """The power of two of threads, up to ``most``, that need one batch for ``loads``."""
    threads = 1
    while threads < most and threads * unroll < loads:
        threads *= 2
    return threads


def rows_a_team(m: int, threads: int, sms: int) -> int:
    """Up to four, if there are then three blocks for two SMs."""
    rows, teams = 4, max(1, 128 // threads) if threads <= WARP else 1
    while rows > 1 and 2 * cdiv(m, rows * teams) < 3 * sms:
        rows //= 2
    return rows
