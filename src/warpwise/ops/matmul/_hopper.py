"""Launchers of Hopper's kernels with TMA, wgmma and clusters: k12, k20, and k22 for int8."""

from __future__ import annotations

from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm import k_major
from warpwise.gemm.config import GemmConfig, tile_scheduler
from warpwise.gemm.limits import requires_hopper, requires_k, size_limit
from warpwise.gemm.operands import addressable_view, sizes, tma_operand
from warpwise.operation import cdiv, sm_count

HERE = Path(__file__).parent

WARPGROUPS = cuda.load(HERE / "k12_warpgroups.cu")
WARPGROUPS_SHARED = 1024 + 4 * (2 + 4) * 8192 + 4 * 8192 + 64  # alignment, four stages of A and B, C's boxes, barriers
DEFERRED = cuda.load(HERE / "k20_overlapped_epilogue.cu")
INT8 = cuda.load(HERE / "k22_warpgroups_int8.cu")


def warpgroups(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    m, n, k = sizes(a, b)
    pairs, columns = cdiv(m, 256), cdiv(n, 256)
    clusters = min(pairs * columns, max(1, sm_count(a) // 2))
    maps = [cuda.tensor_map(matrix, (64, 64)) for matrix in (a, b, c)]
    kernel = WARPGROUPS[f"matmul_warpgroups<{cuda.ctype(a.dtype)}>"]
    kernel[2 * clusters, 384, WARPGROUPS_SHARED](*maps, k, pairs, columns, 8)


def warpgroups_limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """A Hopper GPU, and rows that TMA can address."""
    _, n, k = sizes(a, b)
    if reason := requires_hopper(a) or requires_k(k):
        return reason
    if n % 8 or k % 8:
        return f"takes n and k in multiples of 8, whose rows begin on 16 bytes, not n = {n} and k = {k}"
    if any(matrix.data_ptr() % 16 and matrix.is_contiguous() for matrix in (a, b)):
        return "takes a and b that begin on 16 bytes"
    return size_limit(a, b)


def kernel_name(
    dtype: torch.dtype, config: GemmConfig, a_mn_major: bool, b_mn_major: bool, name: str = "matmul_overlapped_epilogue"
) -> str:
    """k20's C++ name; an operand is K-major unless said otherwise."""
    return f"{name if config.blocks > 1 else f'{name}_no_cluster'}<{config.parameters(dtype, a_mn_major, b_mn_major)}>"


def overlapped_epilogue(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, config: str | None = None) -> None:
    chosen, launch, tiles = tile_scheduler(a, b, config)
    (read_a, a_mn_major), (read_b, b_k_major) = tma_operand(a), tma_operand(b)
    maps = [cuda.tensor_map(matrix, (64, 64)) for matrix in (read_a, read_b, c)]
    DEFERRED[kernel_name(a.dtype, chosen, a_mn_major, not b_k_major)][launch](*maps, a.shape[1], *tiles)


def overlapped_epilogue_limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """A Hopper GPU, rows of C on 16 bytes, operands that TMA can address in place or in a row-major copy."""
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


def warpgroups_int8(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    k_major.launch(INT8["matmul_warpgroups_int8"], c, a, b)


def int8_is_profitable(a: torch.Tensor, b: torch.Tensor) -> bool:
    """True if k22 can run and has tiles for half of the SMs."""
    m, n, _ = sizes(a, b)
    return a.is_cuda and 2 * cdiv(m, 128) * cdiv(n, 256) >= sm_count(a) and not k_major.limits(a, b)
