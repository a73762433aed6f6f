"""The ladder of linear, slowest idea first."""

from __future__ import annotations

import math
from typing import Any

import torch

from warpwise.gemm import boxes
from warpwise.gemm.default import default_of
from warpwise.gemm.fused import problem as fused
from warpwise.gemm.fused.problem import Operands, Problem
from warpwise.ops.matmul.op import MATMUL

Outputs = tuple[torch.Tensor, torch.Tensor | None]


def problem(outputs: Outputs, *args: Any) -> Problem:
    """Leading dimensions are flattened; vectors are made contiguous, and a matrix is copied only if it cannot be
    flattened in place."""
    output, preactivation = outputs
    bias, activation, residual, row_scale = args[2:6]
    x, w = operands(*args)
    m, n = x.shape[0], w.shape[1]
    residual = None if residual is None else residual.reshape(m, n)
    kept = None if preactivation is None else preactivation.view(m, n)
    bias = None if bias is None else bias.contiguous()
    row_scale = None if row_scale is None else row_scale.reshape(m).contiguous()
    return Problem(x, w, output.view(m, n), kept, bias, row_scale, activation, residual)


def operands(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> Operands:
    return input.reshape(math.prod(input.shape[:-1]), weight.shape[1]), weight.t()


def warpgroup_limits(
    input: torch.Tensor, weight: torch.Tensor, bias: Any, activation: Any, residual: torch.Tensor | None, *rest: Any
) -> str | None:
    """The limits: a Hopper GPU, and matrices that TMA can address."""
    x, w = operands(input, weight)
    if reason := boxes.warpgroup_limit(x, w, ("input", "weight", "out_features")):
        return reason
    if residual is None:
        return None
    rows = residual.reshape(x.shape[0], w.shape[1])
    return boxes.tma_limit("residual", rows) or (
        "takes residual with contiguous rows" if boxes.transposed(rows) else None
    )


RUNGS = fused.rungs(problem, operands, warpgroup_limits, MATMUL)

default = default_of(RUNGS, "k02_warpgroups", "k01_triton_pass", "k03_cluster_split_k", operands=operands)
