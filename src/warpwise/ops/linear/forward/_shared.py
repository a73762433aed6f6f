"""Arguments with leading dimensions flattened, and limits and configurations of several rungs."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

from warpwise.gemm import boxes
from warpwise.gemm import limits as gemm_limits
from warpwise.operation import sm_count


class Layer(NamedTuple):
    """The arguments with leading dimensions flattened: x (m, k), w (n, k); residual, y and preactivation (m, n)."""

    x: torch.Tensor
    w: torch.Tensor
    bias: torch.Tensor | None
    activation: str | None
    residual: torch.Tensor | None
    scale: torch.Tensor | None
    y: torch.Tensor
    preactivation: torch.Tensor | None

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.x.shape[0], self.w.shape[0], self.x.shape[1]

    @property
    def residual_strides(self) -> tuple[int, int]:
        return (0, 0) if self.residual is None else (self.residual.stride(0), self.residual.stride(1))


Outputs = tuple[torch.Tensor, torch.Tensor | None]


def layer(outputs: Outputs, *args: Any) -> Layer:
    """Vectors are made contiguous; a matrix is copied only if its leading dimensions cannot be flattened in place."""
    output, preactivation = outputs
    input, weight, bias, activation, residual, row_scale, _ = args
    m, n = math.prod(input.shape[:-1]), weight.shape[0]
    return Layer(
        input.reshape(m, input.shape[-1]),
        weight,
        None if bias is None else bias.contiguous(),
        activation,
        None if residual is None else residual.reshape(m, n),
        None if row_scale is None else row_scale.reshape(m).contiguous(),
        output.view(m, n),
        None if preactivation is None else preactivation.view(m, n),
    )


def sizes(input: torch.Tensor, weight: torch.Tensor) -> tuple[int, int, int]:
    return math.prod(input.shape[:-1]), weight.shape[0], weight.shape[1]


def grid_of_elements(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> str | None:
    return gemm_limits.rows_limit(*sizes(input, weight), rows=8)


def grid_of_pass(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> str | None:
    return gemm_limits.rows_limit(*sizes(input, weight), rows=16)


def grid_of_tiles(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> str | None:
    return gemm_limits.tiles_limit(*sizes(input, weight))


def tiled_configs(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> tuple[str, ...]:
    return boxes.pointer_configs(input, *sizes(input, weight))


def tma_limits(
    input: torch.Tensor, weight: torch.Tensor, bias: Any, activation: Any, residual: torch.Tensor | None, *rest: Any
) -> str | None:
    """A GPU with TMA, and matrices that it can address."""
    m, n, k = sizes(input, weight)
    if reason := gemm_limits.requires_k(k):
        return reason
    unit = 16 // input.element_size()
    if n % unit:
        return f"takes out_features in multiples of {unit}, whose rows begin on 16 bytes, not {n}"
    if residual is not None:
        rows = residual.reshape(m, n)
        reason = boxes.tma_limit("residual", rows)
        if reason or boxes.transposed(rows):
            return reason or "takes residual with contiguous rows"
    rows = input.reshape(m, k)
    reason = gemm_limits.requires_tma(input) or boxes.tma_limit("input", rows) or boxes.tma_limit("weight", weight)
    return reason or grid_of_tiles(input, weight)


def tma_configs(
    input: torch.Tensor, weight: torch.Tensor, bias: Any, activation: Any, residual: torch.Tensor | None, *rest: Any
) -> tuple[str, ...]:
    """Every tile; with a residual, those that fit half a tile of it."""
    return boxes.configs(1, *sizes(input, weight), sm_count(input), int(residual is not None))
