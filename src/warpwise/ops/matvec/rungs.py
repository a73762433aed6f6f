"""The ladder of matvec, slowest idea first, with the launchers of k01 and k02."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.operation import Rung, cdiv, lazy_launch, make_rung
from warpwise.ops.matvec import (
    k03_rows_together,
    k04_columns,
    k06_unaligned_rows,
    k07_unaligned_columns,
    k08_packed_rows,
    k09_few_columns,
)
from warpwise.ops.matvec._shared import THREADS, VECTOR, WARP, WARPS, column_load_bytes, load_bytes, row_pitch
from warpwise.ops.matvec.spec import KERNEL_DTYPES

HERE = Path(__file__).parent
MOST_BLOCKS = 2**31 - 1
LEAST_ROWS = 64  # of k07
LONG_ROW = 10000  # bytes of a row of k06 if there are fewer than 16 rows, or less than 1 MB
SHORT_ROWS = 2048  # bytes of a row of k06, at least, in other matrices of less than 8 MB
SHORTEST_ROWS = 1024  # the same in matrices of 8 MB and more of 4-byte elements
SHORTEST_HALVES = 768  # and of 2-byte elements
PACKED_ROWS = (64, 384)  # elements of a row of k08 that other rungs load 2 bytes at a time, in matrices of 4 MB
THIN_ROWS = (3, 16)  # the same for loads of up to 4 bytes, in matrices of 256 KB
MEDIUM, HUGE = 1 << 20, 1 << 28  # bytes

THREAD_PER_ROW = cuda.load(HERE / "k01_thread_per_row.cu")
WARP_PER_ROW = cuda.load(HERE / "k02_warp_per_row.cu")


def thread_per_row(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor) -> None:
    m, k = a.shape
    kernel = THREAD_PER_ROW[f"matvec_thread_per_row<{cuda.ctype(a.dtype)}>"]
    kernel[cdiv(m, THREADS), THREADS](cuda.strided(a), x.contiguous(), cuda.out(y), m, k, *a.stride())


def warp_per_row(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor) -> None:
    m, k = a.shape
    kernel = WARP_PER_ROW[f"matvec_warp_per_row<{cuda.ctype(a.dtype)}>"]
    kernel[cdiv(m, WARPS), (WARP, WARPS)](cuda.strided(a), x.contiguous(), cuda.out(y), m, k, *a.stride())


def limits(a: torch.Tensor, x: torch.Tensor) -> str | None:
    """The limit of a grid with one block per row, which k03 may have."""
    return f"takes up to {MOST_BLOCKS} rows, not {a.shape[0]}" if a.shape[0] > MOST_BLOCKS else None


def triton_limits(a: torch.Tensor, x: torch.Tensor) -> str | None:
    """The limits of k05: its loop over K counts in 32 bits, up to a tile past the end."""
    if 2**31 - 1024 < a.shape[1] < 2**31:
        return f"takes up to {2**31 - 1024} columns, or 2**31 and more, not {a.shape[1]}"
    return limits(a, x)


def rung(name: str, idea: str, launch: Any, **options: Any) -> Rung:
    return make_rung(
        HERE, name, idea, launch, **{"dtypes": KERNEL_DTYPES, "limits": limits, "strided": True, **options}
    )


RUNGS = (
    rung("k01_thread_per_row", "one thread per row", thread_per_row),
    rung("k02_warp_per_row", "a warp per row, coalesced", warp_per_row),
    rung(
        "k03_rows_together",
        "16-byte loads, several rows and loads in flight",
        k03_rows_together.launch,
        configs=k03_rows_together.configs,
    ),
    rung(
        "k04_columns",
        "for transposed views: a lane keeps its rows and loops over columns",
        k04_columns.launch,
        configs=k04_columns.configs,
    ),
    rung("k05_triton", "either order in Triton", lazy_launch(f"{__package__}.k05_triton"), limits=triton_limits),
    rung(
        "k06_unaligned_rows",
        "16-byte loads of unaligned rows, x shifted to match",
        k06_unaligned_rows.launch,
        configs=k06_unaligned_rows.configs,
    ),
    rung(
        "k07_unaligned_columns",
        "16-byte loads of unaligned columns, the sums shifted to match",
        k07_unaligned_columns.launch,
        configs=k07_unaligned_columns.configs,
    ),
    rung(
        "k08_packed_rows",
        "16-byte loads of short rows of any alignment, through shared memory",
        k08_packed_rows.launch,
        limits=k08_packed_rows.limits,
    ),
    rung(
        "k09_few_columns",
        "all of up to 48 columns in flight, whole rows of each thread",
        k09_few_columns.launch,
        configs=k09_few_columns.configs,
        limits=k09_few_columns.limits,
    ),
)


def default(a: torch.Tensor, x: torch.Tensor) -> str | None:
    """The rung for sizes without a point of a table, or None for PyTorch.

    PyTorch computes float64, arguments beyond ``limits``, and the column-major matrices that ``_by_columns`` names.
    """
    if a.dtype not in KERNEL_DTYPES or limits(a, x):
        return None
    column_major = a.stride(0) == 1 and a.stride(1) != 1 and a.shape[0] > 1
    return _by_columns(a, x) if column_major else _by_rows(a, x)


def _by_columns(a: torch.Tensor, x: torch.Tensor) -> str | None:
    """The rung for a column-major matrix. The first of these cases that applies:

    - k09 for up to 48 columns;
    - k07 for 64 and more rows, if the columns are not aligned to 16 bytes and the matrix has 1 MB and more, or if they
      are aligned and ``is_for_aligned`` is true;
    - PyTorch, which is faster, for 2-byte elements from 256 MB on;
    - k04.
    """
    if k09_few_columns.limits(a, x) is None:
        return "k09_few_columns"
    unaligned = column_load_bytes(a) < VECTOR
    shifts = a.nbytes >= MEDIUM if unaligned else k07_unaligned_columns.is_for_aligned(a)
    if shifts and a.shape[0] >= LEAST_ROWS:
        return "k07_unaligned_columns"
    return None if a.element_size() == 2 and a.nbytes >= HUGE else "k04_columns"


def _by_rows(a: torch.Tensor, x: torch.Tensor) -> str:
    """The rung for other matrices. The first of these cases that applies:

    - k08 for short contiguous rows of a matrix that is aligned to 16 bytes, if other rungs load them 2 bytes at a time
      (64 to 384 elements, from 4 MB on) or up to 4 bytes at a time (3 to 16 elements, from 256 KB on); k03 on GPUs on
      which k08 does not run;
    - k03 for a few long rows (``whole_wave``), and for many rows that it loads 8 bytes at a time (``many_rows``);
    - k06 for long rows that are not aligned to 16 bytes: of at least 10,000 bytes if the matrix has fewer than 16 rows
      or less than 1 MB; of 2048 bytes if it has less than 8 MB; of 1024 bytes (2-byte elements: 768) in larger ones;
    - k03.
    """
    (m, k), size, pitch, nbytes = a.shape, a.element_size(), row_pitch(a), a.nbytes
    bytes_a_load = load_bytes(size, a.data_ptr(), pitch * size)
    packed = bytes_a_load == 2 and PACKED_ROWS[0] <= k <= PACKED_ROWS[1] and nbytes >= 4 * MEDIUM
    thin = bytes_a_load <= 4 and THIN_ROWS[0] <= k <= THIN_ROWS[1] and nbytes >= MEDIUM // 4
    if (packed or thin) and pitch == k and a.data_ptr() % VECTOR == 0:
        return "k08_packed_rows" if k08_packed_rows.limits(a, x) is None else "k03_rows_together"
    shortest = SHORT_ROWS if nbytes < 8 * MEDIUM else SHORTEST_ROWS if size == 4 else SHORTEST_HALVES
    few = m < k03_rows_together.FEW_ROWS or nbytes < MEDIUM
    large = k * size >= (LONG_ROW if few else shortest)
    if k03_rows_together.measured_geometry(a, bytes_a_load):
        return "k03_rows_together"
    return "k06_unaligned_rows" if bytes_a_load < VECTOR and large else "k03_rows_together"
