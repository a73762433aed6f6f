"""The tables of addmm: layouts and alignment as for matmul, and the shape of the input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise.gemm import operands, tables
from warpwise.gemm.model import FALLBACK, Model
from warpwise.gemm.time_model import CLUSTER_SPLIT_K, OVERLAPPED

FAMILIES = {"k02_warpgroups": OVERLAPPED, "k03_cluster_split_k": CLUSTER_SPLIT_K}
MODEL = Model("addmm", Path(__file__).parent / "model", FAMILIES, FALLBACK)


def describe(
    input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float
) -> tuple[str, dict[str, int]]:
    """``gemm.operands.describe`` of a and b, with the input's kind: matrix, row, column, number; none if beta is 0."""
    kind, sizes = operands.describe(a, b)
    rows, columns = (1, 1, *input.shape)[-2:]
    if beta == 0:
        return f"{kind} nothing", sizes
    shape = {(False, False): "number", (False, True): "row", (True, False): "column", (True, True): "matrix"}
    return f"{kind} {shape[rows > 1, columns > 1]}", sizes


def _row(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *scalars: Any) -> tuple[Any, ...]:
    return (input[0], a, b, *scalars)


ARRANGEMENTS = {
    **{
        f"{name} matrix": lambda input, a, b, *rest, lay=lay: (input, *lay(a, b, *rest))
        for name, lay in tables.ARRANGEMENTS.items()
    },
    "nn row": _row,
}
TABLES = tables.tables("addmm", Path(__file__).parent, MODEL, describe, ARRANGEMENTS)
