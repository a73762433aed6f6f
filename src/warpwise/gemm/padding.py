"""Padded copies of operands that TMA cannot address: each row begins on a multiple of 128 bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm import k_major
from warpwise.gemm.operands import addressable_view, on_16_bytes
from warpwise.operation import cdiv

PAD = cuda.load(Path(__file__).parent / "pad.cu")
ROWS_PER_BLOCK = 4
LINE = 128  # bytes: copied rows begin on a line of L2, so that a row of a box is one line
THREADS = 256


def dense(matrix: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """``matrix`` or its transpose, whichever has contiguous rows, and True for the transpose; a copy if neither has."""
    for transposed, view in ((False, matrix), (True, matrix.t())):
        if view.stride(1) == 1 or view.shape[1] == 1:
            return view, transposed
    return matrix.contiguous(), False


def pitch(length: int, size: int) -> int:
    """The row stride in elements of ``size`` bytes: ``length``, rounded up to a multiple of LINE bytes."""
    return cdiv(length * size, LINE) * LINE // size


def padded(*matrices: torch.Tensor) -> list[torch.Tensor]:
    """Copies of one or two matrices of one dtype with contiguous rows, made by one launch.

    Each row begins on a multiple of LINE bytes; the number of rows is rounded up to a multiple of 16. Elements outside
    of the matrix are undefined.
    """
    size = matrices[0].element_size()
    copies = []
    for rows, length in (matrix.shape for matrix in matrices):
        copies.append(matrices[0].new_empty((cdiv(rows, 16) * 16, pitch(length, size))))
    arguments: list[object] = []
    for matrix, to in zip(matrices, copies, strict=True):
        rows, length = matrix.shape
        arguments += [cuda.strided(matrix), matrix.stride(0), rows, length, cuda.strided(to), to.shape[1] * size // 16]
    if len(matrices) == 1:
        arguments += [None, 0, 0, 0, None, 0]
    blocks = [cdiv(matrix.shape[0], ROWS_PER_BLOCK) for matrix in matrices]
    threads = min(THREADS, max(cdiv(to.shape[1] * size // 16, 32) * 32 for to in copies))
    PAD[f"pad_lines<{cuda.ctype(matrices[0].dtype)}>"][sum(blocks), threads](*arguments, blocks[0])
    return copies


def in_place_or_padded(views: Sequence[torch.Tensor], ready: Sequence[bool]) -> list[torch.Tensor]:
    """The views that are ``ready``, and ``padded`` copies in place of the others."""
    to_copy = [view for view, is_ready in zip(views, ready, strict=True) if not is_ready]
    copies = iter(padded(*to_copy) if to_copy else ())
    return [view if is_ready else next(copies) for view, is_ready in zip(views, ready, strict=True)]


def tma_operands(*matrices: torch.Tensor) -> list[tuple[torch.Tensor, bool]]:
    """For each matrix a tensor that TMA can read, a view or a padded copy, and True if it is the transpose."""
    in_place = [addressable_view(matrix) for matrix in matrices]
    views = [found or dense(matrix) for found, matrix in zip(in_place, matrices, strict=True)]
    made = in_place_or_padded([view for view, _ in views], [found is not None for found in in_place])
    return [
        (lines[: view.shape[0], : view.shape[1]], transposed)
        for lines, (view, transposed) in zip(made, views, strict=True)
    ]


def k_major_operands(*matrices: torch.Tensor) -> list[torch.Tensor]:
    """Matrices (rows, K) of bytes, K-major with rows on 16 bytes: in place, copied, or transposed."""
    views = [dense(matrix) for matrix in matrices]
    ready = [transposable(view) if transposed else on_16_bytes(view) for view, transposed in views]
    found = []
    for lines, (view, transposed) in zip(in_place_or_padded([view for view, _ in views], ready), views, strict=True):
        rows, length = view.shape
        found.append(k_major.transposed_bytes(lines)[:length, :rows] if transposed else lines[:rows, :length])
    return found


def transposable(view: torch.Tensor) -> bool:
    """True if ``k_major.transposed_bytes`` can read these bytes in place and write rows that begin on 16 bytes."""
    return view.is_contiguous() and view.shape[1] % 4 == 0 and view.shape[0] % 16 == 0 and view.data_ptr() % 4 == 0
