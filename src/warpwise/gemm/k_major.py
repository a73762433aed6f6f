"""Transposes for wgmma, which reads 1-byte and 4-byte operands K-major only, and for loads by TMA."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm.limits import GRID_Y, hopper_limits
from warpwise.operation import cdiv

TRANSPOSE = cuda.load(Path(cuda.__file__).parent / "include/warpwise/core/gemm_transpose.cuh")


def transposed_bytes(matrix: torch.Tensor) -> torch.Tensor:
    """The contiguous transpose of a contiguous matrix of bytes with sizes in multiples of 4."""
    rows, columns = matrix.shape
    result = matrix.new_empty((columns, rows))
    words, to = matrix.view(torch.int32), result.view(torch.int32)
    TRANSPOSE["transpose_bytes"][(cdiv(columns, 128), cdiv(rows, 128)), (32, 8)](words, cuda.out(to), rows, columns)
    return result


def transposed_words(lines: torch.Tensor, side: int = 32) -> torch.Tensor:
    """The transpose of ``lines`` (rows, columns), float32 with contiguous rows, in rows that begin on 128 bytes.

    ``side``: of a block's tile.
    """
    rows, columns = lines.shape
    to = lines.new_empty((columns, cdiv(rows, 32) * 32))
    TRANSPOSE[f"transpose_words<{side}>"][cdiv(rows, side) * cdiv(columns, side), (32, 8)](
        cuda.strided(lines), lines.stride(0), cuda.strided(to), to.shape[1], rows, columns
    )
    return to[:, :rows]


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """The limits: a Hopper GPU, and the grid of the transposing kernel."""
    if (longest := max(a.shape)) > 32 * GRID_Y:
        return f"takes m and k up to {32 * GRID_Y} (the transposing kernel's grid.y is 16 bits), not {longest}"
    return hopper_limits(a, b)
