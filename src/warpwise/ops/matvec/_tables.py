"""The tables of matvec: kinds of matrices, and sizes worth measuring."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise.operation import Case, Tables

_SHAPES = (
    (16384, 16384), (4096, 14336), (14336, 4096), (4096, 4096), (1024, 1024), (8191, 8191), (16, 2**20), (16, 2**22),
    (2**20, 64), (2**18, 100), (2**18, 256), (2**16, 1024),
)  # fmt: skip


def describe(a: torch.Tensor, x: torch.Tensor) -> tuple[str, dict[str, int]]:
    """n for row-major or t for column-major, whether rows or columns begin on 16 bytes, and the sizes."""
    (m, k), (rows, columns) = a.shape, a.stride()
    transposed = rows == 1 and columns != 1 and m > 1
    step = columns if transposed else rows if columns == 1 else k  # a matrix with gaps in its rows is copied
    aligned = step * a.element_size() % 16 == 0 and a.data_ptr() % 16 == 0
    return ("t" if transposed else "n") + ("" if aligned else " unaligned"), {"m": m, "k": k}


TABLES = Tables(
    "matvec",
    Path(__file__).parent / "tuned",
    describe,
    {"n": lambda a, x: (a, x), "t": lambda a, x: (a.t().contiguous().t(), x)},
    tuple(Case(f"{m}x{k}", {"m": m, "k": k}) for m, k in _SHAPES),
    {"float16": "bfloat16"},
)
