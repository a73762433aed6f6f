"""The launcher of k20, and its limits. Its configurations are those of ``gemm.persistent``."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm.config import GemmConfig
from warpwise.gemm.limits import requires_hopper, requires_k, size_limit
from warpwise.gemm.operands import addressable_view, sizes, tma_operand
from warpwise.gemm.persistent import tile_scheduler

OVERLAPPED_EPILOGUE = cuda.load(Path(__file__).with_suffix(".cu"))


def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    chosen, geometry, tiles = tile_scheduler(a, b, config)
    (read_a, a_mn_major), (read_b, b_k_major) = tma_operand(a), tma_operand(b)
    maps = [cuda.tensor_map(matrix, (64, 64)) for matrix in (read_a, read_b, c)]
    OVERLAPPED_EPILOGUE[kernel_name(a.dtype, chosen, a_mn_major, not b_k_major)][geometry](*maps, a.shape[1], *tiles)


def limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """The limits: a Hopper GPU, 16-byte aligned rows of C, operands that TMA can address in place or in a copy."""
    _, n, k = sizes(a, b)
    if reason := requires_hopper(a) or requires_k(k):
        return reason
    if n % 8:
        return f"takes n in multiples of 8, so that rows of c begin on 16 bytes, not n = {n}"
    for name, matrix, columns in (("a", a, k), ("b", b, n)):
        if columns % 8 and addressable_view(matrix) is None:
            return (
                f"takes {name} whose rows or columns begin on 16 bytes, or can be copied so, "
                f"not shape {tuple(matrix.shape)} with strides {matrix.stride()}"
            )
    return size_limit(a, b)


def kernel_name(
    dtype: torch.dtype, config: GemmConfig, a_mn_major: bool, b_mn_major: bool, name: str = "matmul_overlapped_epilogue"
) -> str:
    """The C++ name of k20, or of another kernel called ``name`` with its template parameters."""
    return f"{name if config.blocks > 1 else f'{name}_no_cluster'}<{config.parameters(dtype, a_mn_major, b_mn_major)}>"
