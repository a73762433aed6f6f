"""Launchers of scaled_matmul's kernels but Hopper's: one thread an element, and tiles in Triton."""

from __future__ import annotations

import torch

from warpwise import cuda
from warpwise.ops._boxes import engine
from warpwise.ops._common import cdiv, multiprocessors
from warpwise.ops.scaled_matmul._operands import HERE, aligned, copy_engine, factors, scales, too_large

NAIVE = cuda.load(HERE / "k01_naive.cu")
GRID_Y = 65535


def naive(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> None:
    left, right = factors(a, b)
    scale_a, scale_b, by_row = scales(scale_a, scale_b)
    (m, k), n = left.shape, right.shape[0]
    kernel = NAIVE[f"scaled_matmul_naive<{cuda.ctype(a.dtype)}, {cuda.ctype(b.dtype)}>"]
    kernel[(cdiv(n, 32), cdiv(m, 8)), (32, 8)](left, right, cuda.out(c), scale_a, scale_b, by_row, m, n, k)


def grid_of_rows(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> str | None:
    if a.shape[0] > 8 * GRID_Y:
        return f"takes up to {8 * GRID_Y} rows of a (grid.y is 16 bits), not {a.shape[0]}"
    return too_large(a, b)


def tiles(a: torch.Tensor, b: torch.Tensor) -> tuple[int, int, int, int, int]:
    """BLOCK_M, BLOCK_N, BLOCK_K, warps and stages: large tiles where they fill the GPU."""
    m, n = a.shape[0], b.shape[1]
    if cdiv(m, 128) * cdiv(n, 128) >= multiprocessors(a) and a.is_cuda:
        return 128, 128, 128, 8, 4
    return 64, 64, 128, 4, 4


def triton_tiled(
    c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor
) -> None:
    from warpwise.ops.scaled_matmul.k02_triton_tiled import scaled_matmul_tiled

    left, right = factors(a, b)
    scale_a, scale_b, by_row = scales(scale_a, scale_b)
    (m, k), n = left.shape, right.shape[0]
    block_m, block_n, block_k, warps, stages = tiles(a, b)
    scaled_matmul_tiled[(cdiv(m, block_m) * cdiv(n, block_n),)](
        left, right, c, scale_a, scale_b, m, n, k, BY_ROW=by_row, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k,
        GROUP=8, num_warps=warps, num_stages=stages,
    )  # fmt: skip


def grid_of_tiles(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> str | None:
    if a.is_cuda and torch.cuda.get_device_capability(a.device) < (8, 9):
        return "takes a GPU of compute capability 8.9 or above: Triton has fp8 of three mantissa bits from there on"
    count = cdiv(a.shape[0], 64) * cdiv(b.shape[1], 64)
    return f"takes up to 2**31 - 1 tiles of 64 x 64, not {count}" if count >= 2**31 else too_large(a, b)


def triton_descriptors(
    c: torch.Tensor, a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor
) -> None:
    from triton.tools.tensor_descriptor import TensorDescriptor

    from warpwise import triton as wt
    from warpwise.ops.scaled_matmul.k03_triton_descriptors import scaled_matmul_descriptors

    left, right = (aligned(factor) for factor in factors(a, b))
    scale_a, scale_b, by_row = scales(scale_a, scale_b)
    (m, k), n = left.shape, right.shape[0]
    block_m, block_n, block_k, warps, stages = tiles(a, b)
    programs = min(multiprocessors(a), cdiv(m, block_m) * cdiv(n, block_n))
    boxes = (block_m, block_k), (block_n, block_k), (block_m, block_n)
    maps = [
        TensorDescriptor.from_tensor(matrix, list(box)) for matrix, box in zip((left, right, c), boxes, strict=True)
    ]
    maps[2] = wt.out(maps[2])
    scaled_matmul_descriptors[(programs,)](
        *maps, scale_a, scale_b, m, n, k, programs, BY_ROW=by_row, BLOCK_M=block_m, BLOCK_N=block_n,
        BLOCK_K=block_k, GROUP=8, num_warps=warps, num_stages=stages,
    )  # fmt: skip


def described(a: torch.Tensor, b: torch.Tensor, scale_a: torch.Tensor, scale_b: torch.Tensor) -> str | None:
    return copy_engine(a, b) or engine(a) or grid_of_tiles(a, b, scale_a, scale_b)
