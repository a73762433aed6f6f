"""Limits and configurations of k04, apart from its kernel since that imports Triton."""

from __future__ import annotations

import torch

from warpwise.gemm import boxes
from warpwise.gemm.limits import requires_k, requires_tma
from warpwise.operation import sm_count
from warpwise.ops.batched_matmul._shared import tiles_limit
from warpwise.ops.batched_matmul.spec import sizes


def descriptors_limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """A GPU with TMA, and matrices that it can address."""
    unit = 16 // a.element_size()
    if b.shape[-1] % unit:
        return f"takes n in multiples of {unit}, so that rows of C begin on 16 bytes, not {b.shape[-1]}"
    addressable = requires_tma(a) or boxes.tma_limit("a", a) or boxes.tma_limit("b", b)
    return requires_k(a.shape[-1]) or addressable or tiles_limit(a, b)


def descriptors_configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """Every tile."""
    return boxes.configs(*sizes(a, b), sm_count(a))
