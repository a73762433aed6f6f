"""What scaled_matmul's choice depends on: layouts and alignment as for matmul, and whether the scales are one or many."""

from __future__ import annotations

import torch

from warpwise.ops import _tables
from warpwise.ops.scaled_matmul._operands import HERE
from warpwise.tuned import Tables


def described(
    a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor
) -> tuple[str, dict[str, int]]:
    """``_tables.described``, with "by row" where each row of a and column of b has its scale."""
    kind, sizes = _tables.described(a, b)
    return (f"{kind} by row" if scale_a.dim() == 2 else kind), sizes


def _by_row(
    a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    return a, b, scale_a.repeat(a.shape[0], 1), scale_b.repeat(1, b.shape[1])


# b comes column-major, as the transposed weight of a linear layer is, and as cuBLAS asks.
TABLES = Tables(
    "scaled_matmul", HERE / "tuned", described, {"nt": lambda *args: args, "nt by row": _by_row}, _tables.SIZES
)
