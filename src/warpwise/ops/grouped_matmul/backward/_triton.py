"""Limits and configurations of the Triton rungs, apart from their kernels since these import Triton."""

from __future__ import annotations

import torch

from warpwise.gemm import boxes
from warpwise.gemm.limits import requires_tma, tiles_limit
from warpwise.operation import cdiv


def tiles_limits(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> str | None:
    k, n = a.shape[1], grad_output.shape[1]
    return tiles_limit(offsets.shape[0] * cdiv(k, 64) * cdiv(n, 64), rows=a.shape[0], n=n, k=k)


def descriptors_limits(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> str | None:
    """A GPU with TMA, matrices that it can address, and contiguous rows, one at least."""
    if a.shape[0] == 0:
        return "takes 1 row or more, not 0"
    for name, operand in (("a", a), ("grad_output", grad_output)):
        if boxes.transposed(operand):
            return f"takes {name} with contiguous rows, not strides {tuple(operand.stride())}"
        if operand.shape[1] % (16 // a.element_size()):
            return f"takes columns of {name} in multiples of {16 // a.element_size()}, not {operand.shape[1]}"
    reason = requires_tma(a) or boxes.tma_limit("a", a) or boxes.tma_limit("grad_output", grad_output)
    return reason or tiles_limits(a, grad_output, offsets)


def descriptors_configs(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> tuple[str, ...]:
    """Every tile, in the order that is estimated if all groups have the same number of rows."""
    return boxes.configs(*even_groups(a, grad_output, offsets))


def even_groups(a: torch.Tensor, grad_output: torch.Tensor, offsets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The operands of the batched product, (groups, k, rows) and (rows, n), if all groups have the same number of
    rows."""
    groups = offsets.shape[0]
    rows = cdiv(a.shape[0], max(1, groups))
    return a[:rows].t().expand(groups, -1, -1), grad_output[:rows]
