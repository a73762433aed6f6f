"""Padded copies of operands that TMA cannot address: each row begins on a multiple of 128 bytes."""

from __future__ import annotations

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


def tma_operands(*matrices: torch.Tensor) -> list[tuple[torch.Tensor, bool]]:
    """For each matrix a tensor that TMA can read, a view or a padded copy, and True if it is the transpose."""
    found: list[tuple[torch.Tensor, bool]] = []
    to_copy = []
    for at, matrix in enumerate(matrices):
        view = addressable_view(matrix)
        if view is None:
            to_copy.append(at)
        found.append(view or dense(matrix))
    if to_copy:
        for at, copy in zip(to_copy, padded(*(found[at][0] for at in to_copy)), strict=True):
            (rows, length), transposed = found[at][0].shape, found[at][1]
            found[at] = copy[:rows, :length], transposed
    return found


def k_major_operands(*matrices: torch.Tensor) -> list[torch.Tensor]:
    """Matrices (rows, K) of bytes, K-major with rows on 16 bytes: in place, copied, or transposed."""
    views = [dense(matrix) for matrix in matrices]
    ready = [transposable(view) if transposed else on_16_bytes(view) for view, transposed in views]
    to_copy = [at for at, is_ready in enumerate(ready) if not is_ready]
    copies = dict(zip(to_copy, padded(*(views[at][0] for at in to_copy)), strict=True)) if to_copy else {}
    found = []
    for at, (view, transposed) in enumerate(views):
        rows, length = view.shape
        if transposed:
            found.append(k_major.transposed(copies.get(at, view))[:length, :rows])
        else:
            found.append(copies[at][:rows, :length] if at in copies else view)
    return found


def transposable(view: torch.Tensor) -> bool:
    """True if ``k_major.transposed`` can read these bytes in place and write rows that begin on 16 bytes."""
    return view.is_contiguous() and view.shape[1] % 4 == 0 and view.shape[0] % 16 == 0 and view.data_ptr() % 4 == 0
