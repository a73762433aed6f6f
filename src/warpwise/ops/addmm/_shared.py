"""The arguments of addmm as a matrix multiplication with an epilogue, and limits of its rungs."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.gemm import boxes
from warpwise.gemm import limits as gemm_limits
from warpwise.gemm.fused.problem import Operands, Problem, warpgroup_limit
from warpwise.gemm.operands import sizes


def problem(
    result: torch.Tensor, input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float
) -> Problem:
    """The input is expanded to the result's shape; it is absent if ``beta`` is 0."""
    source = input.expand(result.shape) if beta != 0 else None
    return Problem(a, b, result, source=source, alpha=alpha, beta=beta)


def operands(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *rest: Any) -> Operands:
    return a, b


def grid_of_elements(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *rest: Any) -> str | None:
    return gemm_limits.rows_limit(*sizes(a, b), rows=8)


def warpgroup_limits(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float) -> str | None:
    """A Hopper GPU, operands that TMA can address, and an input that is a row, or a matrix that TMA can address."""
    if reason := warpgroup_limit(a, b, ("a", "b", "n")):
        return reason
    whole = input.shape == sizes(a, b)[:2] and boxes.row_major_by_tma(input)
    row = input.dim() > 0 and input.numel() == input.shape[-1] == b.shape[1] and input.is_contiguous()
    if beta == 0 or row or whole:
        return None
    return "takes an input that is a row, or a matrix whose rows begin on 16 bytes"
