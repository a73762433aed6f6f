"""The launcher of k20, its limits and configurations: few rows of A, or one column of B, in any dtype and layout."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.cuda.gpu.semaphores import semaphores
from warpwise.gemm.config import GemmConfig, names
from warpwise.gemm.limits import size_limit
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv, sm_count

FEW_ROWS = cuda.load(Path(__file__).with_suffix(".cu"))

MOST_ROWS = 256
THREADS, WARPS = 256, 8


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    tile = GemmConfig.parse(config or configs(a, b)[0])
    rows, splits = tile.m, tile.splits
    a, b = few_rows_first(a, b)
    a = a if a.stride(1) == 1 else a.contiguous()
    b = b if 1 in b.stride() else b.contiguous()
    m, n, k = sizes(a, b)
    by_columns, bytes_a_load, columns = columns_of_tile(b, rows)
    tiles_m, tiles = cdiv(m, rows), cdiv(m, rows) * cdiv(n, columns)
    more = f", {columns // WARPS}" if by_columns else ""
    name = "matmul_few_rows_k_major_b" if by_columns else "matmul_few_rows"
    kernel = FEW_ROWS[f"{name}<{cuda.ctype(a.dtype)}, {rows}{more}, {bytes_a_load}>"]
    partials = c.new_empty((splits, m, n), dtype=torch.float32) if splits > 1 else None
    counters = semaphores(a, tiles) if splits > 1 else None
    pitch = b.stride(1) if by_columns else b.stride(0)
    kernel[tiles * splits, THREADS](
        *(cuda.strided(a), cuda.strided(b), c if splits > 1 else cuda.out(c), partials, counters),
        *(m, n, k, a.stride(0), pitch, tiles_m, splits),
    )


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    m, n, _ = sizes(a, b)
    if m > MOST_ROWS and n > 1:
        return f"takes up to {MOST_ROWS} rows of a, or one column of b, not {m} and {n}"
    return size_limit(a, b)


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """A tile with all rows of A; splits of K with two blocks per SM, and half and twice as many."""
    a, b = few_rows_first(a, b)
    m, n, k = sizes(a, b)
    rows = next((count for count in (1, 4, 8) if count >= m), 16)
    tiles = cdiv(m, rows) * cdiv(n, columns_of_tile(b, rows)[2])
    fill = max(1, 2 * sm_count(a) // max(1, tiles))
    splits = dict.fromkeys(max(1, min(splits, k // 128)) for splits in (fill, 2 * fill, cdiv(fill, 2)))
    return names(GemmConfig(rows, splits=count) for count in splits)


def few_rows_first(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """a and b; for one column of C, which is one row of C^T in memory, b^T and a^T."""
    return (b.t(), a.t()) if b.shape[1] == 1 else (a, b)


def columns_of_tile(b: torch.Tensor, rows: int) -> tuple[bool, int, int]:
    """True if b is column-major; bytes of a load; columns of a tile."""
    k, n = b.shape
    size = b.element_size()
    by_columns = b.stride(0) == 1 and b.stride(1) != 1
    along, pitch = (k, b.stride(1)) if by_columns else (n, b.stride(0))
    four = 4 * size
    bytes_a_load = four if along % 4 == 0 and pitch % 4 == 0 and b.data_ptr() % four == 0 else size
    return by_columns, bytes_a_load, WARPS * (4 if rows == 16 else 8) if by_columns else 32 * bytes_a_load // size
