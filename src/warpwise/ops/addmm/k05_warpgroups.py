"""The launcher of k05, its limits and configurations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from warpwise import cuda
from warpwise.gemm import limits as gemm_limits
from warpwise.gemm import persistent
from warpwise.gemm.epilogue import aligned_pairs, epilogue_launch
from warpwise.gemm.operands import flags, sizes
from warpwise.ops.addmm._shared import tma_addressable, tma_limits

WARPGROUPS = cuda.load(Path(__file__).with_suffix(".cu"))


def launch(
    result: torch.Tensor,
    input: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    beta: float,
    alpha: float,
    config: str | None = None,
) -> None:
    row = aligned_pairs(input).view(-1) if beta != 0 and is_row(input, b) else None
    added = input if beta != 0 and row is None else None
    plan = epilogue_launch(a, b.t(), result, added, None, config)
    kernel = WARPGROUPS[f"addmm_warpgroups<{plan.parameters}, {flags(added is not None)}>"]
    kernel[plan.launch](*plan.maps[:4], row, alpha, beta, *sizes(a, b), *plan.tiles)


def limits(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float, alpha: float) -> str | None:
    """Those of k04, a Hopper GPU, and an input that is a row, or a matrix that TMA can address."""
    if reason := gemm_limits.requires_hopper(a) or tma_limits(input, a, b):
        return reason
    if beta == 0 or is_row(input, b) or (input.shape == sizes(a, b)[:2] and tma_addressable(input)):
        return None
    return "takes an input that is a row, or a matrix whose rows begin on 16 bytes"


def configs(input: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *rest: Any) -> tuple[str, ...]:
    return persistent.configs(a, b)


def is_row(input: torch.Tensor, b: torch.Tensor) -> bool:
    """True if the input is one contiguous row, which is added to all rows."""
    return input.dim() > 0 and input.numel() == input.shape[-1] == b.shape[1] and input.is_contiguous()
