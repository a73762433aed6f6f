"""The tables of linear: layouts and alignment as for matmul, and the epilogue."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from warpwise.gemm import operands, tables
from warpwise.gemm.model import FALLBACK, Model
from warpwise.gemm.time_model import CLUSTER_SPLIT_K, OVERLAPPED
from warpwise.ops.linear.spec import Layer

PASSES = ("gelu", "residual", "row_scale")  # separate passes of PyTorch; cuBLASLt fuses bias, relu and gelu_tanh


def _passes(kind: str) -> int:
    words = kind.split()
    return sum(word in words for word in PASSES) + ("kept" in words and "gelu_tanh" in words)


FAMILIES = {"k02_warpgroups": OVERLAPPED, "k03_cluster_split_k": CLUSTER_SPLIT_K}
MODEL = Model("linear", Path(__file__).parent / "model", FAMILIES, FALLBACK, _passes)


def describe(*args: Any) -> tuple[str, dict[str, int]]:
    """``gemm.operands.describe`` of x and the transpose of W, and the epilogue: "nt bias gelu kept"."""
    layer = Layer(*args)
    rows = layer.input.reshape(math.prod(layer.input.shape[:-1]), layer.input.shape[-1])
    kind, sizes = operands.describe(rows, layer.weight.t())
    given = {"bias": layer.bias, layer.activation or "": layer.activation, **layer.epilogue}
    words = [name for name, value in given.items() if value is not None]
    return " ".join([kind, *words, *(["kept"] if layer.return_preactivation else [])]), sizes


def _followed(activation: str | None, residual: bool = False, keep: bool = False) -> Callable[..., tuple[Any, ...]]:
    """A case's operands with a bias and this epilogue."""

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
TABLES = tables.tables("linear", Path(__file__).parent, MODEL, describe, ARRANGEMENTS)
