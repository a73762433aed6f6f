"""The ladder of matrix_add, slowest idea first. Every rung takes padded rows."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.operation import cdiv, make_rung
from warpwise.ops._packs import PACK_BLOCK, elementwise_blocks, pack_blocks

HERE = Path(__file__).parent
MAX_GRID_Y = 65535

THREADS_DOWN_COLUMNS = cuda.load(HERE / "k01_threads_down_columns.cu")
COALESCED = cuda.load(HERE / "k02_coalesced.cu")
VECTORISED = cuda.load(HERE / "k03_vectorised.cu")


def _rows(matrix: torch.Tensor) -> torch.Tensor:
    """``matrix`` if its columns have stride 1, else a contiguous copy."""
    return matrix if matrix.stride(1) == 1 or matrix.size(1) == 1 else matrix.contiguous()


def _launch(
    module: cuda.Module,
    grid: tuple[int, int],
    block: tuple[int, int],
    out: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    shape: tuple[int, int],
    options: str = "",
) -> None:
    a, b = _rows(a), _rows(b)
    kernel = module[f"matrix_add<{cuda.ctype(a.dtype)}{options}>"]
    kernel[grid, block](cuda.strided(a), cuda.strided(b), cuda.out(out), *shape, a.stride(0), b.stride(0))


def threads_down_columns(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    rows, cols = a.shape
    _launch(THREADS_DOWN_COLUMNS, (cdiv(rows, 32), cdiv(cols, 8)), (32, 8), out, a, b, (rows, cols))


def coalesced(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    rows, cols = a.shape
    _launch(COALESCED, (cdiv(cols, 32), cdiv(rows, 8)), (32, 8), out, a, b, (rows, cols))


def vectorised(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    gapless = a.is_contiguous() and b.is_contiguous()
    rows, cols = (1, a.numel()) if gapless else (a.size(0), a.size(1))
    blocks = (elementwise_blocks if rows == 1 else pack_blocks)(cols, a.element_size())
    options = ", true" if rows == 1 else ", false"
    _launch(VECTORISED, (blocks, min(rows, MAX_GRID_Y)), (PACK_BLOCK, 1), out, a, b, (rows, cols), options)


def triton(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    from warpwise.ops.matrix_add.k04_triton import matrix_add

    (rows, cols), (block_m, block_n) = a.shape, (8, 128)
    matrix_add[(cdiv(rows, block_m) * cdiv(cols, block_n),)](
        a, b, out, rows, cols, *a.stride(), *b.stride(), BLOCK_M=block_m, BLOCK_N=block_n, num_warps=4
    )


def _grid_y(extent: int) -> str | None:
    blocks = cdiv(extent, 8)
    return f"needs {blocks} blocks in y, beyond the {MAX_GRID_Y} of a grid" if blocks > MAX_GRID_Y else None


RUNGS = (
    make_rung(
        HERE,
        "k01_threads_down_columns",
        "threadIdx.x runs down a column",
        threads_down_columns,
        limits=lambda a, b: _grid_y(a.size(1)),
        strided=True,
    ),
    make_rung(
        HERE,
        "k02_coalesced",
        "threadIdx.x runs along a row",
        coalesced,
        limits=lambda a, b: _grid_y(a.size(0)),
        strided=True,
    ),
    make_rung(HERE, "k03_vectorised", "16-byte loads and stores, row by row", vectorised, strided=True),
    make_rung(HERE, "k04_triton", "tiles of 8 x 128 in Triton, any strides", triton, strided=True),
)


def default(a: torch.Tensor, b: torch.Tensor) -> str:
    return "k03_vectorised"
