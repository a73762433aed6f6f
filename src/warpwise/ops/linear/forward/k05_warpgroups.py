"""The launcher of k05, its limits and configurations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.gemm import limits as gemm_limits
from warpwise.gemm import persistent
from warpwise.gemm.epilogue import aligned_pairs, epilogue_launch
from warpwise.gemm.operands import flags
from warpwise.operation import sm_count
from warpwise.ops.linear.forward._shared import Outputs, layer, sizes, tma_limits
from warpwise.ops.linear.spec import ACTIVATIONS

WARPGROUPS = cuda.load(Path(__file__).with_suffix(".cu"))


def launch(outputs: Outputs, *args: Any, config: str | None = None) -> None:
    x, w, bias, activation, residual, scale, y, preactivation = it = layer(outputs, *args)
    kind = ACTIVATIONS.index(activation) + 1 if activation else 0
    plan = epilogue_launch(x, w, y, residual, preactivation, config)
    template = flags(residual is not None, preactivation is not None)
    kernel = WARPGROUPS[f"linear_warpgroups<{plan.parameters}, {kind}, {template}>"]
    kernel[plan.launch](*plan.maps, None if bias is None else aligned_pairs(bias), scale, *it.sizes, *plan.tiles)


def limits(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> str | None:
    """Those of k04, and a Hopper GPU."""
    return gemm_limits.requires_hopper(input) or tma_limits(input, weight, *rest)


def configs(input: torch.Tensor, weight: torch.Tensor, *rest: Any) -> tuple[str, ...]:
    return persistent.ranked(*sizes(input, weight), sm_count(input))
