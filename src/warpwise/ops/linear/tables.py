"""What linear's choice depends on: layouts and alignment as for matmul, and what follows the product."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from warpwise.ops import _tables
from warpwise.ops.linear._launch import HERE
from warpwise.tuned import Tables


def described(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: Any,
    activation: str | None,
    residual: Any,
    row_scale: Any,
    keep: bool,
) -> tuple[str, dict[str, int]]:
    """``_tables.described`` of x and the transpose of W, and the names of what follows: "nt bias gelu kept"."""
    rows = input.reshape(math.prod(input.shape[:-1]), input.shape[-1])
    kind, sizes = _tables.described(rows, weight.t())
    given = {"bias": bias, activation or "": activation, "residual": residual, "row_scale": row_scale}
    words = [kind, *(name for name, value in given.items() if value is not None), *(["kept"] if keep else [])]
    return " ".join(words), sizes


def _followed(activation: str | None, residual: bool = False, keep: bool = False) -> Callable[..., tuple[Any, ...]]:
    """A bias, and what is asked for, beside the factors of a case."""

    def arranged(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> tuple[Any, ...]:
        added = input[:, :1] * weight[:, 0] if residual else None
        return input, weight, weight[:, 0].contiguous(), activation, added, None, keep

    return arranged


ARRANGEMENTS = {
    "bias": _followed(None),
    "bias relu": _followed("relu"),
    "bias gelu": _followed("gelu"),
    "bias gelu kept": _followed("gelu", keep=True),
    "bias gelu_tanh": _followed("gelu_tanh"),
    "bias gelu_tanh kept": _followed("gelu_tanh", keep=True),
    "bias residual": _followed(None, residual=True),
}
TABLES = Tables("linear", HERE / "tuned", described, ARRANGEMENTS, _tables.SIZES, {"float16": "bfloat16"})
