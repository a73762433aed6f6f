"""What matmul's choice depends on besides dtype and sizes, and the tables measured for it (``tuned/``)."""

from __future__ import annotations

import torch

from warpwise.ops.matmul._shared import HERE, sizes
from warpwise.tuned import Tables


def described(a: torch.Tensor, b: torch.Tensor) -> tuple[str, dict[str, int]]:
    """The layouts, n for rows side by side and t for columns (a, then b), whether rows begin on 16 bytes, and the sizes.

    >>> described(a, b.t())   # both contiguous, of sizes that are multiples of 16 bytes
    ("nt", {"m": ..., "n": ..., "k": ...})
    """
    m, n, k = sizes(a, b)
    (first, whole_a), (second, whole_b) = _laid(a), _laid(b)
    return first + second + ("" if whole_a and whole_b else " unaligned"), {"m": m, "n": n, "k": k}


def _laid(matrix: torch.Tensor) -> tuple[str, bool]:
    """One matrix's letter, and whether its lines begin on 16 bytes; one with gaps in both directions is copied first."""
    rows, columns = matrix.stride()
    if columns == 1 or matrix.is_contiguous():
        letter, step = "n", rows
    elif rows == 1:
        letter, step = "t", columns
    else:
        return "n", matrix.shape[1] * matrix.element_size() % 16 == 0
    return letter, step * matrix.element_size() % 16 == 0 and matrix.data_ptr() % 16 == 0


def _columns(matrix: torch.Tensor) -> torch.Tensor:
    """The same matrix, with its columns side by side in memory."""
    return matrix.t().contiguous().t()


TABLES = Tables(
    "matmul",
    HERE / "tuned",
    described,
    {
        "nn": lambda a, b: (a, b),
        "nt": lambda a, b: (a, _columns(b)),
        "tn": lambda a, b: (_columns(a), b),
        "tt": lambda a, b: (_columns(a), _columns(b)),
    },
)
