"""The ladder of addmm, slowest idea first."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.gemm import boxes
from warpwise.gemm.default import default_of
from warpwise.gemm.fused import problem as fused
from warpwise.gemm.fused.problem import Operands, Problem
from warpwise.gemm.operands import sizes
from warpwise.ops.matmul.op import MATMUL


def problem(
    result: torch.Tensor, input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float
) -> Problem:
    """The arguments of the fused rungs: the input expanded to the result's shape, or None if ``beta`` is 0."""
    source = input.expand(result.shape) if beta != 0 else None
    return Problem(a, b, result, source=source, alpha=alpha, beta=beta)


def operands(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *rest: Any) -> Operands:
    return a, b


def warpgroup_limits(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float) -> str | None:
    """The limits: a Hopper GPU, operands that TMA can address, and an input that is a row, or a matrix for TMA."""
    if reason := boxes.warpgroup_limit(a, b):
        return reason
    is_matrix = input.shape == sizes(a, b)[:2]
    whole = is_matrix and not boxes.is_transposed(input) and boxes.tma_limit("input", input) is None
    row = input.dim() > 0 and input.numel() == input.shape[-1] == b.shape[1] and input.is_contiguous()
    if beta == 0 or row or whole:
        return None
    return "takes an input that is a row, or a matrix whose rows begin at multiples of 16 bytes"


RUNGS = fused.rungs(problem, operands, warpgroup_limits, MATMUL)

default = default_of(RUNGS, "k02_warpgroups", "k01_triton_pass", "k03_cluster_split_k", operands=operands)
