"""What addmm's choice depends on: layouts and alignment as for matmul, and the shape of what is added."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.ops import _tables
from warpwise.ops.addmm._launch import HERE
from warpwise.tuned import Tables


def described(
    input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float
) -> tuple[str, dict[str, int]]:
    """``_tables.described`` of the factors, and what is added to their product: a matrix, a row, a column, nothing."""
    kind, sizes = _tables.described(a, b)
    rows, columns = (1, 1, *input.shape)[-2:]
    if beta == 0:
        return f"{kind} nothing", sizes
    shape = {(False, False): "number", (False, True): "row", (True, False): "column", (True, True): "matrix"}
    return f"{kind} {shape[rows > 1, columns > 1]}", sizes


def _row(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *factors: Any) -> tuple[Any, ...]:
    return (input[0], a, b, *factors)


ARRANGEMENTS = {
    **{f"{name} matrix": lambda input, a, b, *rest, lay=lay: (input, *lay(a, b, *rest)) for name, lay in _tables.ARRANGEMENTS.items()},
    "nn row": _row,
}  # fmt: skip
TABLES = Tables("addmm", HERE / "tuned", described, ARRANGEMENTS, _tables.SIZES, {"float16": "bfloat16"})
