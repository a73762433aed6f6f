"""The launcher of k19, its limits and configurations."""

from __future__ import annotations

import torch

from warpwise.gemm import persistent
from warpwise.gemm.limits import hopper_limits
from warpwise.gemm.operands import addressable_view
from warpwise.gemm.padding import tma_operands
from warpwise.ops.matmul import k12_overlapped_epilogue as k12
from warpwise.ops.matmul import k16_skinny

FEW_ROWS = 64  # of A, up to which k16 multiplies the copies


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    (read_a, a_mn_major), (read_b, b_k_major) = tma_operands(a, b)
    if a.shape[0] <= FEW_ROWS and not (config or a_mn_major):  # k16 takes only a K-major A
        return k16_skinny.launch(c, read_a, read_b.t() if b_k_major else read_b)
    k12.multiply(c, a, b, (read_a, a_mn_major), (read_b, b_k_major), config)


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """The limits: a Hopper GPU, and an operand that must be copied, or a C with unaligned rows."""
    in_place = all(addressable_view(operand) is not None for operand in (a, b))
    if in_place and b.shape[1] * b.element_size() % 16 == 0:
        return "takes operands or a C with rows not aligned to 16 bytes; k12_overlapped_epilogue takes aligned ones"
    return hopper_limits(a, b)


def configs(a: torch.Tensor, b: torch.Tensor) -> tuple[str, ...]:
    """The configurations of k12 if it multiplies the copies, else none."""
    return persistent.configs(a, b) if a.shape[0] > FEW_ROWS else ()
