"""The ladder of matvec, slowest idea first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.ops._common import cdiv, make_rung, multiprocessors
from warpwise.ops.matvec.spec import KERNEL_DTYPES
from warpwise.registry import Rung

HERE = Path(__file__).parent
THREADS = 256
WARP, WARPS = 32, 8  # a block's, of 256 threads
BLOCKS_AN_SM = 8
MOST_BLOCKS = 2**31 - 1

THREAD_PER_ROW = cuda.load(HERE / "k01_thread_per_row.cu")
WARP_PER_ROW = cuda.load(HERE / "k02_warp_per_row.cu")
ROWS_TOGETHER = cuda.load(HERE / "k03_rows_together.cu")
COLUMNS = cuda.load(HERE / "k04_columns.cu")


def thread_per_row(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor) -> None:
    m, k = a.shape
    kernel = THREAD_PER_ROW[f"matvec_thread_per_row<{cuda.ctype(a.dtype)}>"]
    kernel[cdiv(m, THREADS), THREADS](cuda.strided(a), x.contiguous(), cuda.out(y), m, k, *a.stride())


def warp_per_row(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor) -> None:
    m, k = a.shape
    kernel = WARP_PER_ROW[f"matvec_warp_per_row<{cuda.ctype(a.dtype)}>"]
    kernel[cdiv(m, WARPS), (WARP, WARPS)](cuda.strided(a), x.contiguous(), cuda.out(y), m, k, *a.stride())


def lies_on(size: int, *values: int) -> bool:
    return all(value % size == 0 for value in values)


def _room(y: torch.Tensor, parts: int) -> torch.Tensor:
    """Where sums go: ``y`` itself, or (parts, M) float32 to be added."""
    return y if parts == 1 else y.new_empty((parts, len(y)), dtype=torch.float32)


def _add(module: cuda.Module, y: torch.Tensor, sums: torch.Tensor) -> None:
    if sums is not y:
        kernel = module[f"warpwise::sum_of_parts<{cuda.ctype(y.dtype)}>"]
        kernel[cdiv(len(y), 4 * THREADS), THREADS](sums, cuda.out(y), len(y), len(sums))


def rows_together(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor) -> None:
    a, x = a if a.stride(1) == 1 else a.contiguous(), x.contiguous()
    (m, k), pitch, size = a.shape, a.stride(0), a.element_size()
    bytes_a_load = 16 if lies_on(16, a.data_ptr(), x.data_ptr(), pitch * size) else size
    warps = BLOCKS_AN_SM * WARPS * multiprocessors(a)
    rows = 4 if m >= 2 * warps else 2 if m >= warps else 1
    # A warp a group of rows if those fill the GPU, else a block; and several blocks a row if those do not either.
    threads, teams = (WARP, WARPS) if cdiv(m, rows) >= warps // 2 or k * size <= 4096 else (THREADS, 1)
    groups = cdiv(m, rows * teams)
    parts = max(1, min(BLOCKS_AN_SM * multiprocessors(a) // groups, k * size // (threads * 64)))
    sums = _room(y, parts)
    kernel = ROWS_TOGETHER[
        f"matvec_rows_together<{cuda.ctype(a.dtype)}, {cuda.ctype(sums.dtype)}, {bytes_a_load}, {rows}, {threads}>"
    ]
    kernel[groups * parts, (threads, teams)](cuda.strided(a), x, cuda.out(sums), m, k, pitch, parts)
    _add(ROWS_TOGETHER, y, sums)


def columns(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor) -> None:
    a, x = a if a.stride(0) == 1 else a.t().contiguous().t(), x.contiguous()
    (m, k), pitch, size = a.shape, a.stride(1), a.element_size()
    bytes_a_load = 16 if lies_on(16, a.data_ptr(), m * size, pitch * size) else size
    groups = cdiv(m, WARP * bytes_a_load // size)
    parts = max(1, min(BLOCKS_AN_SM * multiprocessors(a) // groups, k // (8 * WARPS)))
    sums = _room(y, parts)
    kernel = COLUMNS[f"matvec_columns<{cuda.ctype(a.dtype)}, {cuda.ctype(sums.dtype)}, {bytes_a_load}>"]
    kernel[groups * parts, (WARP, WARPS)](cuda.strided(a), x, cuda.out(sums), m, k, pitch, parts)
    _add(COLUMNS, y, sums)


def triton_tiled(y: torch.Tensor, a: torch.Tensor, x: torch.Tensor) -> None:
    from warpwise.ops.matvec.k05_triton import matvec_tiled

    m, k = a.shape
    block_m, block_k = (128, 32) if a.stride(0) == 1 and m > 1 else (8, 512)
    grid = (cdiv(m, block_m),)
    matvec_tiled[grid](a, x.contiguous(), y, m, k, *a.stride(), BLOCK_M=block_m, BLOCK_K=block_k, num_warps=4)


def limits(a: torch.Tensor, x: torch.Tensor) -> str | None:
    """Blocks of a grid: the smallest of the ladder's take 8 rows; k03 with a block a row goes on along K alone."""
    return f"takes up to {MOST_BLOCKS} rows, not {a.shape[0]}" if a.shape[0] > MOST_BLOCKS else None


def rung(name: str, idea: str, launch: Any) -> Rung:
    return make_rung(HERE, name, idea, launch, dtypes=KERNEL_DTYPES, limits=limits, strided=True)


RUNGS = (
    rung("k01_thread_per_row", "one thread a row", thread_per_row),
    rung("k02_warp_per_row", "a warp a row, coalesced", warp_per_row),
    rung("k03_rows_together", "16-byte loads, several rows and turns at once", rows_together),
    rung("k04_columns", "for transposed views: lanes keep rows and walk along columns", columns),
    rung("k05_triton", "either order in Triton", triton_tiled),
)


def default(a: torch.Tensor, x: torch.Tensor) -> str | None:
    """By the order in which the matrix lies in memory; PyTorch for float64."""
    if a.dtype not in KERNEL_DTYPES or limits(a, x):
        return None
    return "k04_columns" if a.stride(0) == 1 and a.stride(1) != 1 and a.shape[0] > 1 else "k03_rows_together"
