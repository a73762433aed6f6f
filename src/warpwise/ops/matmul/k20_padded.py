"""The launcher of k20, its limits and configurations."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm import k_major, persistent
from warpwise.gemm.limits import requires_hopper, requires_k, size_limit
from warpwise.gemm.operands import addressable_view
from warpwise.gemm.padding import k_major_operands, tma_operands
from warpwise.ops.matmul import k16_skinny
from warpwise.ops.matmul import k17_overlapped_epilogue as k17

PADDED = cuda.load(Path(__file__).with_suffix(".cu"))

FEW_ROWS = 64  # of A, up to which k16 multiplies the copies


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    if a.dtype == torch.int8:
        left, right = k_major_operands(a, b.t())
        return k_major.launch_clusters(PADDED, left, right, c)
    (read_a, a_mn_major), (read_b, b_k_major) = tma_operands(a, b)
    if not (uses_k20(a) or config or a_mn_major):  # k16 takes only a K-major A
        return k16_skinny.launch(c, read_a, read_b.t() if b_k_major else read_b)
    k17.multiply(PADDED, c, a, b, (read_a, a_mn_major), (read_b, b_k_major), config)


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """The limits: a Hopper GPU, and operands or a C that no other rung takes in place."""
    if reason := requires_k(a.shape[1]):
        return reason
    if rung := rung_in_place(a, b):
        return f"takes what must be copied to begin on 16 bytes; {rung} takes these where they lie"
    return requires_hopper(a) or size_limit(a, b)


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """The configurations of k17 if it multiplies the copies, else none."""
    return persistent.configs(a, b) if uses_k20(a) else ()


def uses_k20(a: torch.Tensor) -> bool:
    """True if k17 multiplies the copies; k16 multiplies few rows, k19 int8."""
    return a.dtype != torch.int8 and a.shape[0] > FEW_ROWS


def rung_in_place(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """The rung that takes a, b and C in place, or None if an operand must be copied or C is unaligned."""
    if a.dtype == torch.int8:
        return None if k_major.limits(a, b) else "k19_warpgroups_int8"
    in_place = all(addressable_view(operand) is not None for operand in (a, b))
    return "k17_overlapped_epilogue" if in_place and b.shape[1] * b.element_size() % 16 == 0 else None
