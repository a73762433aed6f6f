"""Launchers of k01 and of the Triton kernels, k02 and k03."""

from __future__ import annotations

import torch

from warpwise import cuda
from warpwise.gemm.limits import GRID_Y, requires_k, requires_tma, size_limit, tiles_limit
from warpwise.gemm.operands import sizes
from warpwise.operation import cdiv, sm_count
from warpwise.ops.scaled_matmul._operands import HERE, aligned, contiguous_operands, contiguous_scales, tma_limits

NAIVE = cuda.load(HERE / "k01_naive.cu")


def naive(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> None:
    left, right = contiguous_operands(a, b)
    scale_a, scale_b, by_row = contiguous_scales(scale_a, scale_b)
    (m, k), n = left.shape, right.shape[0]
    kernel = NAIVE[f"scaled_matmul_naive<{cuda.ctype(a.dtype)}, {cuda.ctype(b.dtype)}>"]
    kernel[(cdiv(n, 32), cdiv(m, 8)), (32, 8)](left, right, cuda.out(c), scale_a, scale_b, by_row, m, n, k)


def grid_of_rows(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> str | None:
    if a.shape[0] > 8 * GRID_Y:
        return f"takes up to {8 * GRID_Y} rows of a (grid.y is 16 bits), not {a.shape[0]}"
    return size_limit(a, b)


def tiles(a: torch.Tensor, b: torch.Tensor) -> tuple[int, int, int, int, int]:
    """BLOCK_M, BLOCK_N, BLOCK_K, warps and stages: large tiles where they fill the GPU."""
    m, n = a.shape[0], b.shape[1]
    if cdiv(m, 128) * cdiv(n, 128) >= sm_count(a) and not a.is_cpu:
        return 128, 128, 128, 8, 4
    return 64, 64, 128, 4, 4


def triton_tiled(
    c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor
) -> None:
    from warpwise.ops.scaled_matmul.k02_triton_tiled import scaled_matmul_tiled

    left, right = contiguous_operands(a, b)
    scale_a, scale_b, by_row = contiguous_scales(scale_a, scale_b)
    (m, k), n = left.shape, right.shape[0]
    block_m, block_n, block_k, warps, stages = tiles(a, b)
    scaled_matmul_tiled[(cdiv(m, block_m) * cdiv(n, block_n),)](
        left,
        right,
        c,
        scale_a,
        scale_b,
        m,
        n,
        k,
        BY_ROW=by_row,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        GROUP=8,
        num_warps=warps,
        num_stages=stages,
    )


def grid_of_tiles(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> str | None:
    if a.is_cuda and torch.cuda.get_device_capability(a.device) < (8, 9):
        return "takes a GPU of compute capability 8.9 or above, for which Triton has float8_e4m3fn"
    return tiles_limit(*sizes(a, b))


def triton_descriptors(
    c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor
) -> None:
    from triton.tools.tensor_descriptor import TensorDescriptor

    from warpwise import triton as wt
    from warpwise.ops.scaled_matmul.k03_triton_descriptors import scaled_matmul_descriptors

    left, right = (aligned(operand) for operand in contiguous_operands(a, b))
    scale_a, scale_b, by_row = contiguous_scales(scale_a, scale_b)
    (m, k), n = left.shape, right.shape[0]
    block_m, block_n, block_k, warps, stages = tiles(a, b)
    programs = min(sm_count(a), cdiv(m, block_m) * cdiv(n, block_n))
    boxes = (block_m, block_k), (block_n, block_k), (block_m, block_n)
    maps = [
        TensorDescriptor.from_tensor(matrix, list(box)) for matrix, box in zip((left, right, c), boxes, strict=True)
    ]
    maps[2] = wt.out(maps[2])
    scaled_matmul_descriptors[(programs,)](
        *maps,
        scale_a,
        scale_b,
        m,
        n,
        k,
        programs,
        BY_ROW=by_row,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        GROUP=8,
        num_warps=warps,
        num_stages=stages,
    )


def descriptor_limits(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> str | None:
    """A GPU with TMA, which can address the operands and the result, and a grid of tiles."""
    return requires_k(a.shape[1]) or tma_limits(a, b) or requires_tma(a) or grid_of_tiles(a, b, scale_a, scale_b)
