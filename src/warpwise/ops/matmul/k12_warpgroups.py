"""The launcher of k12, and its limits."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm.limits import requires_hopper, requires_k, size_limit
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv, sm_count

WARPGROUPS = cuda.load(Path(__file__).with_suffix(".cu"))

SHARED_BYTES = 1024 + 4 * (2 + 4) * 8192 + 4 * 8192 + 64  # alignment, four stages of A and B, C's boxes, barriers


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    m, n, k = sizes(a, b)
    pairs, columns = cdiv(m, 256), cdiv(n, 256)
    clusters = min(pairs * columns, max(1, sm_count(a) // 2))
    maps = [cuda.tensor_map(matrix, (64, 64)) for matrix in (a, b, c)]
    kernel = WARPGROUPS[f"matmul_warpgroups<{cuda.ctype(a.dtype)}>"]
    kernel[2 * clusters, 384, SHARED_BYTES](*maps, k, pairs, columns, 8)


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """A Hopper GPU, and rows that TMA can address."""
    _, n, k = sizes(a, b)
    if reason := requires_hopper(a) or requires_k(k):
        return reason
    if n % 8 or k % 8:
        return f"takes n and k in multiples of 8, whose rows begin on 16 bytes, not n = {n} and k = {k}"
    if any(matrix.data_ptr() % 16 and matrix.is_contiguous() for matrix in (a, b)):
        return "takes a and b that begin on 16 bytes"
    return size_limit(a, b)
