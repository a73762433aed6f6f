"""Launches of one block per tile; tensor maps and limits where K is divided."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from warpwise import cuda
from warpwise.gemm import mma_sync
from warpwise.gemm.limits import requires_hopper, requires_k, size_limit
from warpwise.gemm.operands import addressable, addressable_view, row_major_copy, sizes, tma_operand
from warpwise.operation import cdiv, sm_count

HERE = Path(__file__).parent
BOX = 64  # 2-byte elements in 128 bytes, a swizzled row


def vectorisable(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> str:
    """True, as a template argument, if rows of all three can be read in aligned vectors of four elements."""
    four = 4 * a.element_size()
    whole = a.shape[1] % 4 == 0 and b.shape[1] % 4 == 0 and all(value.data_ptr() % four == 0 for value in (a, b, c))
    return "true" if whole else "false"


def tiled(
    kernel: str, file: str, tile: tuple[int, int], block: int | tuple[int, int], vectors: bool = False
) -> Callable[..., None]:
    """A launch of one block for each ``tile`` (rows, columns) of C; grid.x counts columns."""
    module = cuda.load(HERE / file)

    def launch(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
        m, n, k = sizes(a, b)
        arguments = f"{cuda.ctype(a.dtype)}, {vectorisable(c, a, b)}" if vectors else cuda.ctype(a.dtype)
        grid = cdiv(n, tile[1]), cdiv(m, tile[0])
        module[f"{kernel}<{arguments}>"][grid, block](a, b, cuda.out(c), m, n, k)

    return launch


NAIVE, WARP_TILE, WMMA = (cuda.load(HERE / f"{name}.cu") for name in ("k03_naive", "k09_warp_tile", "k14_wmma"))


def naive(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    m, n, k = sizes(a, b)
    types = cuda.ctype(a.dtype) if c.dtype == a.dtype else f"{cuda.ctype(a.dtype)}, {cuda.ctype(c.dtype)}"
    NAIVE[f"matmul_naive<{types}>"][(cdiv(m, 32), cdiv(n, 32)), (32, 32)](a, b, cuda.out(c), m, n, k)


def warp_tile(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """128 x 128 a block, 32 x 64 a warp, 8 x 8 a thread; a quarter where the large tiles would not fill the GPU."""
    m, n, k = sizes(a, b)
    large = m > 64 and n > 64 and cdiv(m, 128) * cdiv(n, 128) >= sm_count(a)
    side, tiles, threads = (128, "128, 128, 16, 32, 64", 256) if large else (64, "64, 64, 16, 32, 32", 128)
    kernel = WARP_TILE[f"matmul_warp_tile<{cuda.ctype(a.dtype)}, {tiles}, {vectorisable(c, a, b)}>"]
    kernel[(cdiv(n, side), cdiv(m, side)), threads](a, b, cuda.out(c), m, n, k)


def wmma(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    depth, sums = (64, "int") if a.dtype == torch.int8 else (32, "float")
    mma_sync.launch_wmma(WMMA, (cuda.ctype(a.dtype), sums, cuda.ctype(c.dtype)), depth, c, a, b)


def operand_maps(
    a: torch.Tensor, b: torch.Tensor, box: tuple[int, int], fraction: int = 1
) -> tuple[tuple[cuda.TensorMap, cuda.TensorMap], bool]:
    """Tensor maps of a, in boxes of ``box[0]`` rows, and of b, in boxes of ``box[1]`` columns if b is K-major; True if
    it is.

    A box of b holds one ``fraction``-th of its rows. L2 promotion is 256 bytes, but 64 where many rows of a load b and
    rows do not begin on 256 bytes: 6 % faster at 1000 x 3000 x 776 on an H200.
    """
    rows = addressable(a)
    read_b, b_k_major = tma_operand(b)
    read_a = row_major_copy(a) if rows is None else rows
    ragged = a.shape[0] > 256 and any(matrix.stride(0) % (2 * BOX) for matrix in (read_a, read_b))
    promotion = 64 if ragged else 256
    a_map = cuda.tensor_map(read_a, (box[0], BOX), promotion=promotion)
    b_map = cuda.tensor_map(read_b, ((box[1] if b_k_major else BOX) // fraction, BOX), promotion=promotion)
    return (a_map, b_map), b_k_major


def divided_k_limits(a: torch.Tensor, b: torch.Tensor) -> str | None:
    """A Hopper GPU, and operands that TMA can address in place or in a row-major copy."""
    _, n, k = sizes(a, b)
    if reason := requires_hopper(a) or requires_k(k):
        return reason
    if addressable(a) is None and k % 8:
        return f"takes an a whose rows begin on 16 bytes, not k = {k} with strides {a.stride()}"
    if addressable_view(b) is None and n % 8:
        return f"takes a b whose rows or columns begin on 16 bytes, not n = {n} with strides {b.stride()}"
    return size_limit(a, b)
