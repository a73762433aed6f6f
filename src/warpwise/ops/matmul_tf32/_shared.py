"""Code that k02 and k03 share: operands that TMA can load."""

from __future__ import annotations

import torch

from warpwise.gemm.k_major import transposed_words
from warpwise.gemm.operands import on_16_bytes
from warpwise.gemm.padding import padded


def aligned_rows(matrix: torch.Tensor) -> bool:
    """True if TMA can load the rows of ``matrix`` in place."""
    return matrix.stride(1) == 1 and on_16_bytes(matrix)


def aligned_copy(matrix: torch.Tensor) -> torch.Tensor:
    """A copy whose rows begin on 16 bytes."""
    rows, columns = matrix.shape
    return padded(matrix if matrix.stride(1) == 1 else matrix.contiguous())[0][:rows, :columns]


def k_major(matrix: torch.Tensor) -> torch.Tensor:
    """``matrix`` (rows, K) with aligned rows: itself or a copy."""
    if aligned_rows(matrix):
        return matrix
    return transposed_words(matrix.t()) if matrix.stride(0) == 1 else aligned_copy(matrix)


def launches(config: str, kind: str) -> int:
    """A column-major A is transposed, unaligned operands are copied, and splits through global memory are added."""
    return 1 + (kind[0] == "t") + ("unaligned" in kind) + ("_p" in config)
