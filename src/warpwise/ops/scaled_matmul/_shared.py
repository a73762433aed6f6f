"""Code that several rungs share: operands, scales and limits."""

from __future__ import annotations

import torch

from warpwise.device.limits import requires_capability
from warpwise.gemm import limits
from warpwise.gemm.operands import ALIGNMENT
from warpwise.gemm.padding import k_major_operands

MAX_TRANSPOSED = 128 * 65535  # rows that the transposing kernel takes


def contiguous_operands(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """a as (M, K) and b as (N, K), contiguous: no copies where a is row-major and b column-major."""
    return a.contiguous(), b.t().contiguous()


def contiguous_scales(scale_a: torch.Tensor, scale_b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, bool]:
    """Both scales contiguous, and True if there is one for each row of a and column of b."""
    return scale_a.contiguous(), scale_b.contiguous(), scale_a.dim() == 2


def evict_first(m: int, n: int, k: int) -> bool:
    """True if L2 evicts both operands first: unless they are smaller than C."""
    return (m + n) * k >= 2 * m * n


def aligned(matrix: torch.Tensor) -> torch.Tensor:
    """A contiguous ``matrix`` that begins on 16 bytes: itself or a copy."""
    return matrix if matrix.data_ptr() % ALIGNMENT == 0 else matrix.clone()


def k_major(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """a as (M, K) and b as (N, K), K-major with rows that begin on 16 bytes: in place or copied."""
    if a.shape[1] == 0 or a.shape[1] > MAX_TRANSPOSED:
        left, right = contiguous_operands(a, b)
        return aligned(left), aligned(right)
    left, right = k_major_operands(a.view(torch.int8), b.t().view(torch.int8))
    return left.view(a.dtype), right.view(b.dtype)


def grid_of_tiles(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> str | None:
    because = ", for which Triton has float8_e4m3fn"
    return requires_capability(a, 8, 9, because) or limits.grid_of_tiles(a, b)
