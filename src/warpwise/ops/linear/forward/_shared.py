"""The arguments of linear as a matrix multiplication with an epilogue, and limits of its rungs."""

from __future__ import annotations

import math
from typing import Any

import torch

from warpwise.gemm import boxes
from warpwise.gemm import limits as gemm_limits
from warpwise.gemm.fused.problem import Operands, Problem, tma_limit

Outputs = tuple[torch.Tensor, torch.Tensor | None]


def problem(outputs: Outputs, *args: Any) -> Problem:
    """Leading dimensions are flattened; vectors are made contiguous, and a matrix is copied only if it cannot be
    flattened in place."""
    output, preactivation = outputs
    bias, activation, _, row_scale = args[2:6]
    x, w, residual = operands(*args)
    m, n = x.shape[0], w.shape[1]
    kept = None if preactivation is None else preactivation.view(m, n)
    bias = None if bias is None else bias.contiguous()
    row_scale = None if row_scale is None else row_scale.reshape(m).contiguous()
    return Problem(x, w, output.view(m, n), kept, bias, row_scale, activation, residual)


def operands(
    input: torch.Tensor, weight: torch.Tensor, bias: Any, activation: Any, residual: torch.Tensor | None, *rest: Any
) -> Operands:
    m, n, k = sizes(input, weight)
    return Operands(input.reshape(m, k), weight.t(), None if residual is None else residual.reshape(m, n))


def sizes(input: torch.Tensor, weight: torch.Tensor) -> tuple[int, int, int]:
    return math.prod(input.shape[:-1]), weight.shape[0], weight.shape[1]


def grid_of_elements(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> str | None:
    return gemm_limits.rows_limit(*sizes(input, weight), rows=8)


def tma_limits(*args: Any) -> str | None:
    """A GPU with TMA, and matrices that it can address."""
    x, w, residual = operands(*args)
    if residual is not None:
        reason = boxes.tma_limit("residual", residual)
        if reason or boxes.transposed(residual):
            return reason or "takes residual with contiguous rows"
    return tma_limit(x, w, ("input", "weight", "out_features"))


def warpgroup_limits(*args: Any) -> str | None:
    """Those of k04, and a Hopper GPU."""
    return gemm_limits.requires_hopper(args[0]) or tma_limits(*args)
