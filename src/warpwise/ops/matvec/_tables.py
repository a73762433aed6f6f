"""The tables of matvec: what the choice depends on besides dtype and sizes, and the sizes worth measuring."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise.registry import Case
from warpwise.tuned import Tables

_SHAPES = (
    (16384, 16384), (4096, 14336), (14336, 4096), (4096, 4096), (1024, 1024), (8191, 8191), (16, 2**20), (16, 2**22),
    (2**20, 64), (2**18, 100), (2**18, 256), (2**16, 1024),
)  # fmt: skip


def described(a: torch.Tensor, x: torch.Tensor) -> tuple[str, dict[str, int]]:
    """n for rows side by side in memory or t for columns, whether these begin on 16 bytes, and the sizes."""
    (m, k), (rows, columns) = a.shape, a.stride()
    turned = rows == 1 and columns != 1 and m > 1
    step = columns if turned else rows if columns == 1 else k  # with gaps in rows the matrix is copied
    whole = step * a.element_size() % 16 == 0 and a.data_ptr() % 16 == 0
    return ("t" if turned else "n") + ("" if whole else " unaligned"), {"m": m, "k": k}


TABLES = Tables(
    "matvec",
    Path(__file__).parent / "tuned",
    described,
    {"n": lambda a, x: (a, x), "t": lambda a, x: (a.t().contiguous().t(), x)},
    tuple(Case(f"{m}x{k}", {"m": m, "k": k}) for m, k in _SHAPES),
    {"float16": "bfloat16"},
)
