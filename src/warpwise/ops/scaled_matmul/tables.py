"""The tables of scaled_matmul: layouts and alignment as for matmul, and "by row" if each row has a scale."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise.gemm import operands, tables
from warpwise.gemm.model import Model
from warpwise.gemm.time_model import Family, persistent, skinny

FAMILIES = {"k02_two_k_tile_promotion": Family(persistent), "k03_skinny": Family(skinny)}
MODEL = Model("scaled_matmul", Path(__file__).parent / "model", FAMILIES)


def describe(
    a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor
) -> tuple[str, dict[str, int]]:
    """``gemm.operands.describe``, with "by row" where each row of a and column of b has its scale."""
    kind, sizes = operands.describe(a, b)
    return (f"{kind} by row" if scale_a.dim() == 2 else kind), sizes


def _by_row(
    a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    if scale_a.dim() == 2:
        return a, b, scale_a, scale_b
    return a, b, scale_a.repeat(a.shape[0], 1), scale_b.repeat(1, b.shape[1])


# b is column-major, as a linear layer's transposed weight is and as cuBLAS requires.
ARRANGEMENTS = {"nt": lambda *args: args, "nt by row": _by_row}
TABLES = tables.tables("scaled_matmul", Path(__file__).parent, MODEL, describe, ARRANGEMENTS)
