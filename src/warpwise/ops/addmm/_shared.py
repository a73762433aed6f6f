"""Limits and configurations of several rungs, and what their launchers need of the input."""

from __future__ import annotations

from typing import Any

import torch

from warpwise.gemm import boxes
from warpwise.gemm import limits as gemm_limits
from warpwise.gemm.operands import sizes
from warpwise.operation import sm_count


def grid_of_elements(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *rest: Any) -> str | None:
    return gemm_limits.rows_limit(*sizes(a, b), rows=8)


def grid_of_pass(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *rest: Any) -> str | None:
    return gemm_limits.rows_limit(*sizes(a, b), rows=16)


def grid_of_tiles(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *rest: Any) -> str | None:
    return gemm_limits.tiles_limit(*sizes(a, b))


def tiled_configs(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *rest: Any) -> tuple[str, ...]:
    return boxes.pointer_configs(a, *sizes(a, b))


def tma_limits(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *rest: Any) -> str | None:
    """A GPU with TMA, and operands that it can address."""
    if reason := gemm_limits.requires_k(a.shape[1]):
        return reason
    unit = 16 // a.element_size()
    if b.shape[1] % unit:
        return f"takes n in multiples of {unit}, so that rows of the result begin on 16 bytes, not {b.shape[1]}"
    reason = gemm_limits.requires_tma(a) or boxes.tma_limit("a", a) or boxes.tma_limit("b", b)
    return reason or grid_of_tiles(input, a, b)


def tma_configs(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *rest: Any) -> tuple[str, ...]:
    """Every tile; with a matrix as input, those that fit half a tile of it."""
    return boxes.configs(1, *sizes(a, b), sm_count(a), int(input.shape == sizes(a, b)[:2]))


def broadcast(input: torch.Tensor, result: torch.Tensor) -> tuple[torch.Tensor, int, int]:
    """The input expanded to the result's shape, and its strides, 0 where it is broadcast."""
    c = input.expand(result.shape)
    return c, c.stride(0), c.stride(1)


def tma_addressable(input: torch.Tensor) -> bool:
    """True if the input is a row-major matrix that TMA can address."""
    return input.dim() == 2 and not boxes.transposed(input) and boxes.tma_limit("input", input) is None
